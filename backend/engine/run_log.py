"""What happened to one run so far, for any number of readers at any place in it.

Knows events and threads; no engine, no store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from backend.engine.protocol import Event

LAST_KINDS = frozenset({"result", "failed", "cancelled"})


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
        place = max(0, after)
        while True:
            batch = self._wait(place, timeout_s)
            yield from batch
            place += len(batch)
            if not batch or self._ended(place):
                return

    def _wait(self, place: int, timeout_s: float | None) -> list[Event]:
        """The events from `place` on, as soon as there are any; none when the run is over or the time is up."""
        with self._changed:
            if not self._ended(place):
                self._changed.wait_for(lambda: len(self._events) > place, timeout_s)
            return self._events[place:]

    def _ended(self, place: int) -> bool:
        return place >= len(self._events) > 0 and self._events[-1].kind in LAST_KINDS
