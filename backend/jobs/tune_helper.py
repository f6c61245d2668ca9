"""The other end of tune_view: asks a short-lived process what can be tuned, and keeps its replies. Torch-free."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from backend.jobs.short_process import ask

KEPT = 16
PATIENCE_S = 120.0


class TuneHelper:
    """Replies by key; one process at a time, since each has a processor's worth of work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def view(self, key: str, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to `request`; the same `key` stands for the same request. Raises HeadwayError."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _asked(request)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    view: dict[str, Any] = ask("backend.jobs.tune_view", request, PATIENCE_S, "Searching")["view"]
    return view
