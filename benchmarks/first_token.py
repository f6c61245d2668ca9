"""How soon the first token is seen on the Live page after the model made it.

    python -m benchmarks.first_token
    python -m benchmarks.first_token --limit 2 --out first_token.json

Starts the app as a person does, with a home of its own and its engine in a process of its own, opens the Live page in
Chromium and sends one prompt after another; before them one that is not counted, since it loads the target. Both ends
of a delay are wall-clock times of this machine:

- *made*: when the engine took the prompt, which the run's id says, and the time of the prompt's pass, which yields the
  first token; where that token's text waits for the next one, the steps up to it too. All else that the engine does
  between taking the prompt and its pass counts as delay, so that none is told too short.
- *seen*: the browser's clock in the frame after the one in which the answer had text for the first time.

The model's first step comes after the prompt's pass, so a first token is seen sooner still after that one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from backend.data.prompts import read_prompts
from backend.settings import Settings
from storage import RunRecord, Store
from storage.identifiers import time_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
START_S = 120.0
LIVE = "(window.headway?.live || {})"
#: run id -> the browser's clock, in milliseconds, when the run's first text could be seen
WATCH = """() => {
    window.firstSeen = {};
    const answer = document.querySelector(".hw-answer"), begun = new Set();
    new MutationObserver(() => {
        const id = window.headway.live.run?.runId;
        if (!id || !answer.textContent || begun.has(id)) return;
        begun.add(id);
        requestAnimationFrame(() => { window.firstSeen[id] = Date.now(); });
    }).observe(answer, { childList: true, subtree: true, characterData: true });
}"""


class App(AbstractContextManager["App"]):
    """`python app.py` on a free port with a home of its own; can be stopped and started again."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> App:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it answers; raises RuntimeError when it does not."""
        environ = {**os.environ, "HEADWAY_HOME": str(self._home)}
        command = [sys.executable, "app.py", "--port", str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environ)
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            if self._process.poll() is not None:
                raise RuntimeError("the app ended while it started")
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise RuntimeError(f"the app did not answer within {START_S:.0f} s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)


@dataclass(frozen=True)
class Delay:
    """Of one prompt. delay_ms: from made to seen; the others are the run's own."""

    delay_ms: float
    prompt_tokens: int
    prefill_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument("--prompts", default="prompts/heldout.jsonl", metavar="FILE")
    parser.add_argument("--limit", type=int, default=10, help="first N prompts of the file")
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--out", metavar="FILE.json", help="also write all numbers there")
    args = parser.parse_args()
    if not args.chromium:
        parser.exit(2, "No Chromium found: install it or give --chromium PATH.\n")
    texts = [prompt.turns[0] for prompt in read_prompts(args.prompts, limit=args.limit).prompts]
    load = [round(value, 2) for value in os.getloadavg()]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with App(home) as app:
            seen_ms, chromium = ask(app.url, args, texts)
        with Store.open(Settings(home, home).database) as store:
            runs = [store.get_run(run_id) for run_id in seen_ms]
            delays = [delay_of(run, store.steps(run.id), seen_ms[run.id]) for run in runs]
    report(args, delays, conditions(runs[0]) | {"chromium": chromium, "load": load})


def ask(url: str, args: argparse.Namespace, texts: Sequence[str]) -> tuple[dict[str, float], str]:
    """(run id -> when its first text was seen, in milliseconds since 1970; Chromium's version)."""
    from playwright.sync_api import sync_playwright

    # The OpenMP runtime that is preloaded for torch is nothing for a browser.
    environ: dict[str, str | float | bool] = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"], env=environ
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(300_000)
        page.goto(f"{url}/live?{urlencode({'target': args.target, 'drafter': args.drafter})}")
        page.locator(".hw-tree").wait_for()
        page.locator("#hw-longest input[type=number]").fill(str(args.max_new_tokens))
        page.evaluate(WATCH)
        for text in ["Say hello.", *texts]:
            send(page, text)
        seen, version = page.evaluate("window.firstSeen"), browser.version
        browser.close()
    return dict(list(seen.items())[1:]), version


def send(page: Page, text: str) -> None:
    """Types the prompt, presses Run and waits for the end; raises RuntimeError with the page's sentence if it fails."""
    before = page.evaluate(f"{LIVE}.run?.runId || ''")
    page.locator("#hw-prompt-text textarea").fill(text)
    page.locator("#hw-run").click()
    page.wait_for_function(f"{LIVE}.notice || {LIVE}.run?.over && {LIVE}.run.runId !== '{before}'")
    problem = page.evaluate(f"{LIVE}.notice || {LIVE}.run.error")
    if problem:
        raise RuntimeError(problem)


def delay_of(run: RunRecord, records: Sequence[Mapping[str, Any]], seen_ms: float) -> Delay:
    """`records`: the run's prefill and steps as they were stored."""
    made_ms = float(time_of(run.id))
    for record in records:
        made_ms += record["prefill_ms"] if record["kind"] == "prefill" else record["step_ms"]
        if record["text"]:
            break
    return Delay(seen_ms - made_ms, run.prompt_tokens or 0, run.prefill_ms or 0.0)


def conditions(run: RunRecord) -> dict[str, Any]:
    """As the engine itself wrote them down: version, drafter, tree, rule, device, threads, packages."""
    request = {name: value for name, value in run.settings["request"].items() if name not in ("messages", "raw_prompt")}
    return {**run.settings, "request": request}


def report(args: argparse.Namespace, delays: Sequence[Delay], known: dict[str, Any]) -> None:
    each = [delay.delay_ms for delay in delays]
    median, most = statistics.median(each), max(each)
    print(f"first token seen after it was made, {len(each)} prompts: median {median:.0f} ms, maximum {most:.0f} ms")
    print("each, ms:", *(f"{one:.0f}" for one in each))
    if args.out:
        data = {
            "conditions": known | {"prompts": Path(args.prompts).name, "limit": args.limit},
            "median_ms": median,
            "maximum_ms": most,
            "rows": [asdict(delay) for delay in delays],
        }
        Path(args.out).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
