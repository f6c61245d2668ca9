"""How long it takes to open a comparison, and how large its report is.

    python -m benchmarks.compare_page --out benchmarks/results/compare_page.json

Fills an empty database with evaluations of made-up answers, as many prompts as real ones have, then asks for the
comparison as the Compare page does: once with nothing read yet (`first_ms`, what opening it after a start of Headway
costs) and some times more. Then the application itself serves the same database and Chromium opens the page: from
asking for the page's data to the frame after all of it is drawn (`drawn_ms`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.common import machine
from benchmarks.runs_table import START_S, serving
from dashboard.access import AccessPolicy
from dashboard.comparing import Comparisons, Wanted
from dashboard.jobs import Jobs
from dashboard.report import comparison_report
from dashboard.services import Services
from storage import Store
from tests.dashboard.comparisons import add_compared

#: Shows what the address says anew, as the browser's back button does; resolves one frame after it was drawn.
DRAW = """() => new Promise((resolve) => {
  const body = document.querySelector('#hw-compare .hw-cmp > .hw-cmp');
  const began = performance.now();
  const drawn = new MutationObserver(() => {
    if (!body.querySelector('.hw-cmp-sentence')) return;
    drawn.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
  });
  drawn.observe(body, { childList: true });
  dispatchEvent(new PopStateEvent('popstate'));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=480)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--out", metavar="FILE.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "runs.db"
        with Store.open(place) as store:
            jobs = [
                add_compared(store, f"version {n}", {"heads": 0.5 + 0.04 * n}, args.prompts) for n in range(args.runs)
            ]
            sides = [f"eval/{job}/heads" for job in jobs]
            found = answered(store, sides, args.repeats)
        if args.chromium:
            found["drawn_ms"] = drawn(args.chromium, str(place), Path(folder), sides, args.repeats)
    found = {"conditions": machine() | {"runs": args.runs, "prompts": args.prompts}, **found}
    print(json.dumps(found, indent=1))
    if args.out:
        Path(args.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def answered(store: Store, sides: list[str], repeats: int) -> dict[str, Any]:
    """Milliseconds to the data of the page, and bytes of it and of its report."""
    services = Services(None, AccessPolicy.for_bind(), store)  # type: ignore[arg-type]  # nothing here asks an engine
    comparisons = Comparisons(services, Jobs(services))
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        view = comparisons.view(Wanted(tuple(sides)))
        text = json.dumps(view)
        times.append(1000 * (time.perf_counter() - began))
    report = comparison_report(view, datetime.now(UTC))
    return {
        "first_ms": round(times[0], 1),
        "median_ms": round(statistics.median(times[1:]), 1),
        "data_bytes": len(text.encode()),
        "report_bytes": len(report.encode()),
        "common_prompts": view["common"],
    }


def drawn(chromium: str, database: str, folder: Path, sides: list[str], repeats: int) -> dict[str, float]:
    """Milliseconds to everything drawn, in a page of 1440 x 900. The first time the server has read nothing yet."""
    from playwright.sync_api import sync_playwright

    from scripts.screenshots import FLAGS

    query = urlencode([("side", side) for side in sides])
    with serving(database, folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address + "/compare")
        page.locator("#hw-compare .hw-welcome h1").wait_for(timeout=1000 * START_S)
        page.evaluate("(query) => history.replaceState(null, '', '/compare?' + query)", query)
        times = [page.evaluate(DRAW) for _ in range(repeats + 1)]
        browser.close()
    return {"first": round(times[0], 1), "median": round(statistics.median(times[1:]), 1)}


if __name__ == "__main__":
    main()
