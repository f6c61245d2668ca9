"""The event log: readers wait for what comes, stop at the end, and give up after their patience."""

from __future__ import annotations

import threading
import time

from backend.engine.run_log import RunLog


def test_a_reader_waits_for_events_and_ends_with_the_last_one() -> None:
    log = RunLog("r")
    log.append("queued", {})
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(event.kind for event in log.read(0, None)))
    reader.start()
    for kind in ("step", "step", "result"):
        time.sleep(0.01)
        log.append(kind, {})
    reader.join(timeout=10)
    assert seen == ["queued", "step", "step", "result"] and log.over


def test_patience_ends_a_reader_and_a_place_past_the_end_yields_nothing() -> None:
    log = RunLog("r")
    log.append("queued", {})
    assert [event.seq for event in log.read(0, 0.01)] == [1]
    log.append("failed", {"error": "x"})
    assert list(log.read(2, None)) == [] and [event.seq for event in log.read(1, None)] == [2]
