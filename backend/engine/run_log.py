"""What happened to one run so far, for any number of readers at any place in it.

Knows events and threads; no engine, no store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from backend.engine.protocol import Event

LAST_KINDS = frozenset({"result", "failed", "cancelled"})
ASK_S = 1.0  #: how often a silent reader is asked whether it is still there


class RunLog:
    """An append-only list of events with waiting readers. Thread safe."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def append(self, kind: str, data: dict[str, Any]) -> None:
        with self._changed:
            self._events.append(Event(len(self._events) + 1, kind, data))
            self._changed.notify_all()

    @property
    def over(self) -> bool:
        with self._changed:
            return bool(self._events) and self._events[-1].kind in LAST_KINDS

    def read(self, after: int, timeout_s: float | None) -> Iterator[Event]:
        """Events with seq > after as they come; ends after the last one, or when nothing happened for `timeout_s`."""
        for batch in self.batches(after, timeout_s):
            yield from batch

    def batches(
        self, after: int, timeout_s: float | None, gone: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Event]]:
        """`read`, with all that is there at once in one list; ends too when the reader is `gone`."""
        place = max(0, after)
        while batch := self._wait(place, timeout_s, gone):
            yield batch
            place += len(batch)
            with self._changed:
                if self._ended(place):
                    return

    def _wait(self, place: int, timeout_s: float | None, gone: Callable[[], bool]) -> list[Event]:
        """The events from `place` on, as soon as there are any; none when the run is over or the time is up."""
        give_up = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self._ended(place) and len(self._events) <= place and not gone():
                left = ASK_S if give_up is None else min(ASK_S, give_up - time.monotonic())
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._events[place:]

    def _ended(self, place: int) -> bool:
        return place >= len(self._events) > 0 and self._events[-1].kind in LAST_KINDS
