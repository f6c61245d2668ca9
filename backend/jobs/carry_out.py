"""One leased job from start to end, the same in a worker and on the command line: lock its folder, do the work, say in
the store how it ended.

Whatever goes wrong becomes one sentence in the job's `error`. Knows no kind of job.
"""

from __future__ import annotations

import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backend.errors import Cancelled, HeadwayError
from backend.jobs.as_text import validated
from backend.jobs.failures import sentence
from backend.jobs.kinds import JOB_KINDS, JobKind
from backend.jobs.locks import only_one
from backend.jobs.store_context import StoreContext
from storage.errors import UnavailableError
from storage.job_records import JobEnd

LOCK = "lock"
CLOSED = "Headway was closed while this job ran; resume it to go on where it stopped."


@dataclass(frozen=True)
class Outcome:
    """How it ended; `failure` is the exception behind `error`."""

    status: JobEnd
    result: dict[str, Any] | None = None
    error: str | None = None
    failure: BaseException | None = None


def carry_out(context: StoreContext, grace_s: float = 0.0, complain: Callable[[str], None] | None = None) -> Outcome:
    """Run the context's job and end it in the store. Raises StoreError when the store can't be reached any more.

    grace_s: how long an older attempt that still holds the job's folder is waited for before it is killed.
    complain: who is told why the job failed; default: the job's log.
    """
    with context:
        outcome = _attempt(context, grace_s, complain or context.log)
        context.end(outcome.status, result=outcome.result, error=outcome.error)
    return outcome


def _attempt(context: StoreContext, grace_s: float, complain: Callable[[str], None]) -> Outcome:
    kind = JOB_KINDS.get(context.job.kind)
    config: BaseModel | None = None
    try:
        if kind is None:
            raise HeadwayError(f"This version of Headway knows no job of the kind {context.job.kind!r}; update it.")
        config = validated(kind.name, context.job.config)
        with only_one(context.folder / LOCK, f"job {context.job.id}", patience_s=grace_s, replaces=True):
            sweep(context.folder)
            return Outcome("finished", kind.run(config, context))
    except Cancelled:
        return _stopped(context)
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit)):
            raise
        if isinstance(error, KeyboardInterrupt):
            return Outcome("interrupted", error="Stopped with Ctrl-C; resume the job to go on.", failure=error)
        if isinstance(error, UnavailableError):
            return Outcome("interrupted", error=str(error), failure=error)
        told = sentence(error, kind or _UNKNOWN, config)
        complain(told)
        if not isinstance(error, HeadwayError):
            complain("".join(traceback.format_exception(error)).rstrip())
        return Outcome("failed", error=told, failure=error)


_UNKNOWN = JobKind("unknown", "Unknown", "", "", ())


def _stopped(context: StoreContext) -> Outcome:
    """What a job that was asked to stop has become."""
    if context.asked == "pause":
        return Outcome("paused")
    if context.asked == "stop":
        return Outcome("stopped")
    return Outcome("interrupted", error=context.lost or CLOSED)


def sweep(folder: Path, pattern: str = "**/.*.partial") -> None:
    """Remove what a killed attempt left half written. Only for whoever holds the lock on the place."""
    for path in folder.glob(pattern):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def on_signals(handlers: Mapping[int, Callable[[], None]]) -> Iterator[None]:
    """Call a handler when a signal comes; the ones before are put back. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: object) -> None:
        handlers[number]()

    before = {number: signal.signal(number, handle) for number in handlers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
