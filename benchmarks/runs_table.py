"""How long the table of runs takes to filter, sort and group many runs: to the store's answer, and to the drawn rows.

    python -m benchmarks.runs_table
    python -m benchmarks.runs_table --db postgresql://user@host/empty_scratch_database

Fills an empty database with made-up runs of the size real ones have (a prompt of some 400 characters, an answer of some
1,200, all conditions), then asks for one page and the number of runs, as the Runs page does, several times each. The
first time is told apart: it reads from a disk or its cache, the later ones from SQLite's own. `processor_ms` is what
this process alone took, which other programs on the machine change little. Then the application itself serves the same
database, and Chromium shows the Runs page: from the moment the page is asked for something to the frame after its rows
are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from sqlalchemy import insert

from benchmarks.common import machine
from storage import RunFilter, RunSort, Store
from storage.engine import for_writing, make_engine, resolve_url
from storage.identifiers import new_id
from storage.tables import DecodeRun

WORDS = """
the of a rain model draft token tree accept reject speed haiku write explain python function list sum prime number
heads layer cache prompt answer depth node path temperature sample greedy über 🦙 table chart step figure
"""


#: What the page's address says for the same questions as `calls`.
ADDRESSES: dict[str, dict[str, str]] = {
    "the newest": {},
    "the last page": {"page": "180"},
    "status and drafter": {"status": "finished", "drafter": "ngram"},
    "search for a rare word": {"q": "needle-7"},
    "search for a common word": {"q": "haiku"},
    "regular expression, rare": {"q": r"needle-\d", "regex": "1"},
    "regular expression, common": {"q": "rain.*haiku$", "regex": "1"},
    "tag": {"tag": "sweep"},
    "the waste basket": {"trashed": "1"},
    "sorted by tokens/s": {"sort": "tokens_per_s"},
    "sorted by acceptance length": {"sort": "acceptance_length", "desc": "0"},
    "sorted and searched": {"q": "haiku", "sort": "tokens_per_s"},
    "grouped by drafter": {"group": "drafter"},
    "grouped by tag": {"group": "tag"},
    "grouped by a setting": {"group": "temperature"},
}
START_S = 120.0
#: Goes to another query as the browser's back button does; resolves one frame after the table was drawn anew.
DRAW = """(query) => new Promise((resolve) => {
  const table = document.querySelector('.hw-runs .hw-table-scroll');
  const began = performance.now();
  const drawn = new MutationObserver(() => {
    drawn.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve({
      ms: performance.now() - began, rows: table.querySelectorAll('tbody tr').length,
    })));
  });
  drawn.observe(table, { childList: true });
  history.replaceState(null, '', '/runs' + (query ? '?' + query : ''));
  dispatchEvent(new PopStateEvent('popstate'));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--db", help="URL of an empty scratch database (default: an SQLite file that is deleted)")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--out", metavar="FILE.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = args.db or str(Path(folder) / "runs.db")
        with Store.open(url) as store:
            if not store.is_empty():
                parser.exit(2, "The database holds something already; give an empty one.\n")
            fill(url, args.runs)
            found = {name: measure(call, args.repeats) for name, call in calls(store).items()}
            size = store.usage().file_bytes
        conditions = machine()
        conditions["packages"] |= {name: version(name) for name in ("sqlalchemy", "gradio")}
        conditions |= {"database": "given" if args.db else "SQLite file", "runs": args.runs, "bytes": size}
        print(f"{args.runs:,} runs, {(size or 0) / 1e6:.0f} MB, {conditions['processor']}")
        show("answered by the store", found, ("first_ms", "median_ms", "slowest_ms", "processor_ms"))
        drawn: dict[str, dict[str, float]] = {}
        if args.chromium:
            conditions["browser"], drawn = measure_drawn(args.chromium, url, Path(folder), args.repeats)
            show("drawn in the browser", drawn, ("first_ms", "median_ms", "slowest_ms"))
        else:
            print("No Chromium found, so no drawing was timed; install it or give --chromium PATH.", file=sys.stderr)
    if args.out:
        data = {"conditions": conditions, "calls": found, "drawn": drawn}
        Path(args.out).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def show(what: str, found: dict[str, dict[str, float]], columns: tuple[str, ...]) -> None:
    print(f"\n{what:<30}", *(f"{column:>13}" for column in columns), f"{'rows':>8}")
    for name, one in found.items():
        print(f"{name:<30}", *(f"{one[column]:>13.1f}" for column in columns), f"{one['rows']:>8}")


def measure_drawn(
    chromium: str, database: str, folder: Path, repeats: int
) -> tuple[str, dict[str, dict[str, float]]]:
    """The browser's version, and for each question the milliseconds to the drawn rows, in one page of 1440 x 900."""
    from playwright.sync_api import sync_playwright

    from scripts.screenshots import FLAGS

    with serving(database, folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address + "/runs")
        page.locator("tr[data-run]").first.wait_for(timeout=1000 * START_S)
        found = {}
        for name, query in ADDRESSES.items():
            told = [page.evaluate(DRAW, urlencode(query)) for _ in range(repeats + 1)]
            times = [one["ms"] for one in told]
            found[name] = summary(times) | {"rows": told[-1]["rows"]}
        told_version = f"Chromium {browser.version}"
        browser.close()
    return told_version, found


@contextmanager
def serving(database: str, folder: Path) -> Iterator[str]:
    """The address of the application over this database, in processes of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environ = {**os.environ, "HEADWAY_HOME": str(folder / "home"), "HEADWAY_CACHE": str(folder / "cache")}
    command = [sys.executable, "app.py", "--port", str(port), "--db", database]
    with (folder / "app.log").open("w") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        give_up = time.monotonic() + START_S
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"The application did not start: {(folder / 'app.log').read_text()[-500:]}")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _answers(address: str) -> bool:
    try:
        with urlopen(address + "/headway/status", timeout=5):
            return True
    except (URLError, OSError):
        return False


def fill(url: str, count: int) -> None:
    """Runs of the last weeks, half of them tagged, one in ten without figures."""
    random_number = random.Random(0)
    engine = for_writing(make_engine(resolve_url(url)))
    with engine.begin() as connection:
        for start in range(0, count, 500):
            rows = [made_up(number, random_number) for number in range(start, min(count, start + 500))]
            connection.execute(insert(DecodeRun), rows)
    engine.dispose()


def made_up(number: int, random_number: random.Random) -> dict[str, Any]:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    steps = random_number.randint(20, 200)
    accepted = random_number.randint(0, 2 * steps)
    prompt = " ".join(random_number.choices(WORDS.split(), k=70))
    measured = number % 10 != 0
    figures = {
        "prompt_tokens": random_number.randint(10, 400),
        "num_tokens": 1 + steps + accepted,
        "num_steps": steps,
        "num_drafted": 4 * steps,
        "num_accepted": accepted,
        "num_cut": 0,
        "prefill_ms": random_number.uniform(20, 200),
        "draft_ms": random_number.uniform(1, 3) * steps,
        "verify_ms": random_number.uniform(20, 40) * steps,
        "commit_ms": random_number.uniform(0.1, 0.3) * steps,
        "overhead_ms": random_number.uniform(0.1, 0.9) * steps,
        "wall_ms": random_number.uniform(25, 50) * steps,
    }
    return {
        "id": new_id(),
        "created_at": moment,
        "started_at": moment,
        "finished_at": moment + timedelta(seconds=9),
        "status": "finished" if measured else "failed",
        "owner": "host/1/boot.1",
        "drafter_name": random_number.choice(["none", "ngram", "builtin-medusa", "small-heads"]),
        "finish_reason": "stop" if measured else None,
        "contended": number % 7 == 0,
        "traces_pruned": False,
        "trashed_at": moment if number % 50 == 3 else None,
        **{name: value if measured else None for name, value in figures.items()},
        "accepted_per_depth": [accepted // 2, accepted // 4, accepted // 8],
        "drafted_per_depth": [steps, steps, steps],
        "tags": random_number.sample(["sweep", "night", "keep", "paper"], k=number % 3),
        "settings": conditions(number, random_number),
        "error": None if measured else "Out of memory; lower the batch.",
        "notes": "a note about the rain" if number % 20 == 0 else "",
        "prompt": prompt,
        "text": " ".join(random_number.choices(WORDS.split(), k=210)) + (" needle-7" if number % 97 == 0 else ""),
        "tokens": random_number.choices(range(49_152), k=1 + steps + accepted),
        "messages": [{"role": "user", "content": prompt}],
    }


def conditions(number: int, random_number: random.Random) -> dict[str, Any]:
    return {
        "request": {
            "target": "smollm2-135m",
            "rule": "greedy",
            "temperature": random_number.choice([0.0, 0.3, 0.7, 1.0]),
            "top_p": 1.0,
            "seed": number,
            "tree": [list(range(depth)) for depth in range(1, 8)],
        },
        "device": "cpu",
        "dtype": "float32",
        "threads": 2,
        "packages": {f"package-{i}": "1.2.3" for i in range(12)},
    }


def calls(store: Store) -> dict[str, Callable[[], int]]:
    """What the page asks for: a page of 50 and the number of runs that are left."""

    def page(where: RunFilter, order: Any = "newest", offset: int = 0) -> Callable[[], int]:
        def call() -> int:
            return store.find_runs(where, order=order, limit=50, offset=offset)[1]

        return call

    return {
        "the newest": page(RunFilter()),
        "the last page": page(RunFilter(), offset=9_000),
        "status and drafter": page(RunFilter(status="finished", drafter="ngram")),
        "search for a rare word": page(RunFilter(search="needle-7")),
        "search for a common word": page(RunFilter(search="haiku")),
        "regular expression, rare": page(RunFilter(regex=r"needle-\d")),
        "regular expression, common": page(RunFilter(regex=r"rain.*haiku$")),
        "tag": page(RunFilter(tags=("sweep",))),
        "the waste basket": page(RunFilter(trashed=True)),
        "sorted by tokens/s": page(RunFilter(), RunSort(by="tokens_per_s")),
        "sorted by acceptance length": page(RunFilter(), RunSort(by="acceptance_length", descending=False)),
        "sorted and searched": page(RunFilter(search="haiku"), RunSort(by="tokens_per_s")),
        "grouped by drafter": lambda: len(store.group_runs(by="drafter_name")),
        "grouped by tag": lambda: len(store.group_runs(by="tag")),
        "grouped by a setting": lambda: len(store.group_runs(by="settings.request.temperature")),
    }


def measure(call: Callable[[], int], repeats: int) -> dict[str, float]:
    times, busy = [], []
    for _ in range(repeats + 1):
        began, began_busy = time.perf_counter(), time.process_time()
        rows = call()
        times.append(1000 * (time.perf_counter() - began))
        busy.append(1000 * (time.process_time() - began_busy))
    return summary(times) | {"processor_ms": statistics.median(busy[1:]), "rows": rows}


def summary(times: list[float]) -> dict[str, float]:
    return {"first_ms": times[0], "median_ms": statistics.median(times[1:]), "slowest_ms": max(times[1:])}


if __name__ == "__main__":
    main()
