"""What is new about one job since it was last asked: its record, metric rows, items and log text. Knows no HTTP."""

from __future__ import annotations

from typing import Any

from backend.errors import HeadwayError
from dashboard.jobs import TAIL_BYTES, Jobs
from dashboard.presenters.jobs import job_details
from storage.errors import NotFoundError, StoreError

MAX_ROWS = 2000  # a message; the next poll brings the rest

News = tuple[str, Any]


class JobFollower:
    """`poll()` gives [(kind, data)]; kinds: job {record}; metrics {rows: [[seq, step, {name: value}]]};
    items {items: [{seq, key, data}]}; log {text, restart, end: byte}; trouble {error}; gone {error}.

    `position` is "METRICS.ITEMS.LOG": the last seq of either and the byte of the log, what a reader resumes from.
    """

    def __init__(self, jobs: Jobs, job_id: str, position: str = "") -> None:
        self._jobs = jobs
        self._job_id = job_id
        self._metrics, self._items, self._log = _parsed(position)
        self._record: dict[str, Any] | None = None
        self._trouble: str | None = None
        self._gone = False

    @property
    def position(self) -> str:
        return f"{self._metrics}.{self._items}.{-1 if self._log is None else self._log}"

    def poll(self) -> list[News]:
        if self._gone:
            return []
        news: list[News] = []
        try:
            # What was read before an error counts as read, so it is handed on all the same.
            for part in (self._new_record, self._new_metrics, self._new_items, self._new_log):
                news += part()
        except NotFoundError as error:
            self._gone = True
            return [*news, ("gone", {"error": str(error)})]
        except (HeadwayError, StoreError) as error:
            return [*news, *self._once(str(error))]
        self._trouble = None
        return news

    def _once(self, error: str) -> list[News]:
        """A database that is away for a while is told once, and then read on."""
        if error == self._trouble:
            return []
        self._trouble = error
        return [("trouble", {"error": error})]

    def _new_record(self) -> list[News]:
        record = job_details(self._jobs.get(self._job_id))
        if record == self._record:
            return []
        self._record = record
        return [("job", record)]

    def _new_metrics(self) -> list[News]:
        rows = self._jobs.metrics(self._job_id, after_seq=self._metrics, limit=MAX_ROWS)
        if not rows:
            return []
        self._metrics = rows[-1].seq
        return [("metrics", {"rows": [[row.seq, row.step, row.values] for row in rows]})]

    def _new_items(self) -> list[News]:
        items = self._jobs.items(self._job_id, after_seq=self._items)
        if not items:
            return []
        self._items = items[-1].seq
        return [("items", {"items": [{"seq": item.seq, "key": item.key, "data": item.data} for item in items]})]

    def _new_log(self) -> list[News]:
        restart = self._log is None
        text, end = self._jobs.log_since(self._job_id, self._log, TAIL_BYTES)
        restart = restart or (self._log is not None and end < self._log)
        self._log = end
        return [("log", {"text": text, "restart": restart, "end": end})] if text else []


def _parsed(position: str) -> tuple[int, int, int | None]:
    """ "12" means both sequence numbers, without the log so far; anything unreadable means from the start."""
    parts = position.split(".")
    numbers = [int(part[:18]) if part.isascii() and part.isdigit() else None for part in parts]
    metrics = numbers[0] or 0
    items = (numbers[1] if len(numbers) > 1 else numbers[0]) or 0
    return metrics, items, numbers[2] if len(numbers) > 2 else None
