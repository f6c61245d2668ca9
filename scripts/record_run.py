"""Record a real decode for the page's tests: `python scripts/record_run.py tests/ui/fixtures/run.json.gz`.

Runs the engine with the built-in target and heads and writes what a page would be told, compactly: conditions, prefill,
steps and result. Knows nothing of how it is replayed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backend.engine.protocol import DecodeRequest, Message
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.settings import Settings

PROMPT = "Write a short story about a lighthouse keeper who finds a letter in a bottle."
DIGITS = 5  # of a number: more would only make the file larger
KEPT = ("started", "prefill", "step", "result")


def record(request: DecodeRequest) -> list[dict[str, Any]]:
    """The events of one run, as far as they are kept. Raises HeadwayError when the run fails."""
    engine = LocalEngine(Settings.from_environ())
    try:
        events = []
        for event in engine.events(engine.submit(request)):
            if event.kind == "failed":
                raise HeadwayError(str(event.data["error"]))
            if event.kind in KEPT:
                events.append({"kind": event.kind, "data": _short(event.data)})
        return events
    finally:
        engine.close()


def write(events: list[dict[str, Any]], path: Path) -> None:
    """The same events give the same bytes; the file is there whole or not at all."""
    text = json.dumps(events, ensure_ascii=False, separators=(",", ":"))
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    os.replace(unfinished, path)


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return [_short(inner) for inner in value] if isinstance(value, list | tuple) else value


def main() -> int:
    parser = argparse.ArgumentParser(description="Record a real run for the page's tests.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", default="medusa-63")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    options = parser.parse_args()
    try:
        request = DecodeRequest(
            messages=(Message(role="user", content=options.prompt),),
            tree=options.tree,
            max_new_tokens=options.max_new_tokens,
        )
        events = record(request)
    except HeadwayError as error:
        print(error, file=sys.stderr)
        return 2
    write(events, options.out)
    steps = sum(event["kind"] == "step" for event in events)
    print(f"{steps} steps in {options.out}, {options.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
