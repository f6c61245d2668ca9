"""What every page shows about the whole: who has the device, the machine's load, the jobs that are open or just ended.

One snapshot serves all browsers: it is renewed at most once in `renew_s`, however many ask.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backend.errors import HeadwayError
from dashboard.jobs import Jobs
from dashboard.presenters.jobs import job_row
from dashboard.runs import Runs
from dashboard.services import Services
from storage.errors import StoreError
from storage.job_records import OPEN_JOB_STATUSES

NUM_ENDED = 20
log = logging.getLogger(__name__)


@dataclass
class Pulse:
    """`snapshot()` gives {"status": ..., "machine": ..., "jobs": [...], "trouble": ...}; a part that can't be read now
    keeps its last value, and `trouble` is the store's sentence while it can't be read, else None.
    """

    services: Services
    runs: Runs
    jobs: Jobs
    renew_s: float = 0.7
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, Any] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def snapshot(self) -> dict[str, Any]:
        due = self.clock() - self._read_at >= self.renew_s
        # Whoever comes while another thread reads takes what is known: a slow engine must not hold up all browsers.
        if due and self._reading.acquire(blocking=not self._known):
            try:
                self._known = {**self._known, **self._read()}
                self._read_at = self.clock()
            finally:
                self._reading.release()
        return dict(self._known)

    def _read(self) -> dict[str, Any]:
        parts: dict[str, Callable[[], Any]] = {
            "status": self.runs.status,
            "jobs": self._jobs,
            "machine": self.services.engine.machine,
        }
        found: dict[str, Any] = {"trouble": None}
        for name, read in parts.items():
            try:
                found[name] = read()
            except (HeadwayError, StoreError) as error:
                log.warning("%s can't be read now: %s", name, error)
                if isinstance(error, StoreError):
                    found["trouble"] = str(error)
            except Exception:
                log.exception("%s can't be read now", name)
        return found

    def _jobs(self) -> list[dict[str, Any]]:
        opened = self.jobs.list(statuses=OPEN_JOB_STATUSES, order="queue", limit=100)
        ended = self.jobs.list(statuses=("finished", "failed", "stopped"), limit=NUM_ENDED)
        return [job_row(job) for job in (*opened, *ended)]
