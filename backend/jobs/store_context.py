"""A job's context that remembers: progress, metrics, items and links go to the store under one attempt's number.

A thread beats every second, carries the progress and brings back what the job was asked for. Writes are tried again
while the database is away; when it stays away, the job stops with its work kept. A stale attempt (another one has the
job by now) ends at once. Knows no kind of job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from backend.jobs.pace import Pace
from backend.settings import Settings
from storage import JobRecord, Store, StoreError
from storage.errors import NotFoundError, StaleAttemptError, UnavailableError
from storage.job_records import JobEnd
from storage.patience import retrying

BEAT_S = 1.0
PATIENCE_S = 120.0  #: how long a write waits for a database that is away

Asked = Literal["stop", "pause", "close", "lost"]
_T = TypeVar("_T")


class StoreContext:
    """See context.JobContext. Use as a context manager: the beat runs inside.

    `on_stale` is called from whichever thread notices that the attempt is stale; it has to end the process. `say` takes
    sentences, `show` progress (done, total, unit, note); a terminal shows both, a worker logs the first.
    """

    def __init__(
        self,
        store: Store,
        job: JobRecord,
        settings: Settings,
        *,
        on_stale: Callable[[], None],
        say: Callable[[str], None],
        show: Callable[[float, float, str, str], None] = lambda done, total, unit, note: None,
        patience_s: float = PATIENCE_S,
        beat_s: float = BEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store: Store | None = store
        self.settings, self.job = settings, job
        self.job_id: str | None = job.id
        self.folder: Path = settings.jobs / job.id
        self.device = None if job.device == "auto" else job.device
        self.asked: Asked | None = None
        self.lost = ""  #: why the store could no longer be reached
        self._store, self._on_stale, self._say, self._show = store, on_stale, say, show
        self._patience_s, self._beat_s, self._clock = patience_s, beat_s, clock
        self._progress: dict[str, Any] | None = None
        self._pace = Pace()
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name=f"headway-beat-{job.id}", daemon=True)

    def __enter__(self) -> StoreContext:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._beating.join(timeout=5)

    # -- JobContext
    # -----------------------------------------------------------------------------------------------------------

    def progress(self, done: float, total: float, unit: str = "", note: str = "") -> None:
        left = self._pace.left_s(done, total, unit, self._clock())
        self._progress = {
            "done": done,
            "total": total,
            "unit": unit,
            "note": note,
            "left_s": None if left is None else round(left, 1),
        }
        self._show(done, total, unit, note)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self._write(lambda: self._store.add_metrics(self.job.id, self.job.attempt, [(step, dict(values))]))

    def resumed_at(self, step: int) -> None:
        self._write(lambda: self._store.drop_metrics_after(self.job.id, self.job.attempt, step))

    def item(self, key: str, data: Mapping[str, Any]) -> None:
        self._write(lambda: self._store.put_items(self.job.id, self.job.attempt, {key: dict(data)}))

    def items(self) -> dict[str, dict[str, Any]]:
        return {item.key: item.data for item in self._write(lambda: self._store.items(self.job.id))}

    def should_stop(self) -> bool:
        return self.asked is not None

    def log(self, sentence: str) -> None:
        self._say(sentence)

    def link(
        self, *, version_id: str | None = None, drafter_id: str | None = None, dataset_id: str | None = None
    ) -> None:
        ids = {"version_id": version_id, "drafter_id": drafter_id, "dataset_id": dataset_id}
        self._write(lambda: self._store.link_job(self.job.id, self.job.attempt, **ids))

    def pin(self, files: Iterable[Path]) -> dict[str, str]:
        from backend.jobs.inputs import pin_files  # here, so that leasing a job waits for no torch

        return pin_files(self.folder, files)

    # -- for whoever runs the job
    # ------------------------------------------------------------------------------------------------

    def ask(self, what: Asked) -> None:
        """Make `should_stop` say so; a later, different wish does not overrule a stop."""
        if self.asked != "stop":
            self.asked = what

    def end(self, status: JobEnd, *, result: dict[str, Any] | None = None, error: str | None = None) -> None:
        """Stop beating, then running -> `status`. Raises StoreError when the store can't be reached."""
        self._ended.set()
        self._beating.join(timeout=5)
        if self._progress is not None:  # the last word on how far it came
            self._write(lambda: self._store.heartbeat(self.job.id, self.job.attempt, self._progress))
        self._write(lambda: self._end_once(status, result, error))

    def _end_once(self, status: JobEnd, result: dict[str, Any] | None, error: str | None) -> None:
        try:
            self._store.end_job(self.job.id, self.job.attempt, status, result=result, error=error)
        except StaleAttemptError:
            # An end whose answer was lost on the way has been stored.
            now = self._store.get_job(self.job.id)
            if (now.status, now.attempt) != (status, self.job.attempt):
                raise

    # -- the beat
    # ---------------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            try:
                asked = self._write(lambda: self._store.heartbeat(self.job.id, self.job.attempt, self._progress))
            except StoreError as error:
                self.lost = str(error)
                self.ask("lost")
                return
            if asked is not None:
                self.ask(asked)

    def _write(self, call: Callable[[], _T]) -> _T:
        """The call's result, tried again while the store is away; a stale attempt ends here."""
        try:
            return patiently(call, self._patience_s)
        except (StaleAttemptError, NotFoundError):
            if not self._ended.is_set() or threading.current_thread() is not self._beating:
                self._on_stale()
            raise


def patiently(call: Callable[[], _T], patience_s: float) -> _T:
    """The call's result, tried again for `patience_s` seconds while the store is away, whatever it says of why."""
    return retrying(lambda: _unavailable(call), patience_s=patience_s)


def _unavailable(call: Callable[[], _T]) -> _T:
    """A worker's writes are right, so whatever the database says against them (file gone, disk full) may pass."""
    try:
        return call()
    except (StaleAttemptError, NotFoundError, UnavailableError):
        raise
    except StoreError as error:
        raise UnavailableError(str(error)) from error
