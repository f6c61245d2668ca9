"""The other end of tune_view: asks a short-lived process what can be tuned, and keeps its replies. Torch-free."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError

KEPT = 16
PATIENCE_S = 120.0
_ROOT = Path(__file__).resolve().parents[2]


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
    try:
        done = subprocess.run(
            [sys.executable, "-m", "backend.jobs.tune_view"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=_ROOT,
            timeout=PATIENCE_S,
            check=False,
        )
        reply = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise HeadwayError("Searching took too long; wait until the machine is free, and try again.") from None
    except ValueError:
        print(done.stderr, file=sys.stderr)
        raise HeadwayError("The search failed; Headway's log says why.") from None
    if "error" in reply:
        raise HeadwayError(str(reply["error"]))
    view: dict[str, Any] = reply["view"]
    return view
