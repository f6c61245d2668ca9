"""Queries about one decode run or some: states, steps, notes, waste basket; each a function of an open session.

Knows the tables; knows nothing of engines, locks or retries, which are `store`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, select, update
from sqlalchemy import delete as sql_delete
from sqlalchemy.orm import Session

from storage import run_list, traces
from storage.errors import NotFoundError, StoreError
from storage.records import OPEN_STATUSES, RunRecord, RunResult, RunStatus
from storage.tables import DecodeRun, TraceChunk

_INTERRUPTED = "The program that ran this stopped before the run ended; run it again."
_AT_ONCE = 500  # ids in one IN (…): SQLite takes a limited number of parameters


def get(session: Session, run_id: str) -> RunRecord:
    """One run with all but its steps."""
    run = run_list.get(session, run_id)
    if run is None:
        raise _unknown(run_id)
    return run


def several(session: Session, run_ids: Sequence[str]) -> list[RunRecord]:
    """Some runs in this order. NotFoundError if one is not there."""
    found: dict[str, RunRecord] = {}
    for some in _chunks(list(run_ids)):
        found |= run_list.several(session, some)
    for run_id in run_ids:
        if run_id not in found:
            raise _unknown(run_id)
    return [found[run_id] for run_id in run_ids]


def start(session: Session, run_id: str, now: datetime, **known: Any) -> None:
    """queued -> running, with what became known since it was queued (None: nothing new)."""
    values = {name: value for name, value in known.items() if value is not None}
    _move(session, run_id, ("queued",), status="running", started_at=now, **values)


def end(
    session: Session, run_id: str, status: RunStatus, now: datetime, result: RunResult | None, error: str | None
) -> None:
    """To one of the final statuses; only a running run can finish, a queued one can be cancelled or fail."""
    values: dict[str, Any] = asdict(result) if result else {}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    allowed: tuple[RunStatus, ...] = ("running",) if status == "finished" else OPEN_STATUSES
    _move(session, run_id, allowed, status=status, finished_at=now, error=error, **values)


def _move(session: Session, run_id: str, allowed: Sequence[RunStatus], **values: Any) -> None:
    # One statement, so that of two processes that end the same run exactly one succeeds.
    change = update(DecodeRun).where(DecodeRun.id == run_id, DecodeRun.status.in_(allowed)).values(**values)
    if cast(CursorResult[Any], session.execute(change)).rowcount == 0:
        raise StoreError(
            f"Run {run_id} is {_status(session, run_id)} and can no longer become {values['status']}; start a new run."
        )


def _status(session: Session, run_id: str) -> str:
    query = select(DecodeRun.status).where(DecodeRun.id == run_id).with_for_update()
    status = session.execute(query).scalar_one_or_none()
    if status is None:
        raise _unknown(run_id)
    return status


def mark_interrupted(session: Session, is_alive: Callable[[str], bool], now: datetime) -> list[str]:
    """End the open runs whose owner is dead; returns their ids."""
    query = select(DecodeRun.id, DecodeRun.owner).where(DecodeRun.status.in_(OPEN_STATUSES)).order_by(DecodeRun.id)
    query = query.with_for_update()
    dead = [run_id for run_id, owner in session.execute(query) if not is_alive(owner)]
    for run_id in dead:
        end(session, run_id, "interrupted", now, None, _INTERRUPTED)
    return dead


def append_steps(session: Session, run_id: str, first_step: int, steps: Sequence[dict[str, Any]]) -> None:
    """Add one chunk right after the steps already stored."""
    blob = traces.pack(steps)
    status = _status(session, run_id)
    if status != "running":
        raise StoreError(f"Run {run_id} is {status}, so steps can no longer be added; start a new run.")
    expected = num_stored_steps(session, run_id)
    if first_step != expected:
        raise StoreError(
            f"Run {run_id} holds {expected} steps, so a chunk from step {first_step} does not continue it; "
            f"append from step {expected}."
        )
    chunk = TraceChunk(run_id=run_id, first_step=first_step, num_steps=len(steps), num_bytes=len(blob), blob=blob)
    session.add(chunk)


def num_stored_steps(session: Session, run_id: str) -> int:
    """Steps of a run that are stored; chunks lie end to end."""
    query = select(TraceChunk.first_step + TraceChunk.num_steps).where(TraceChunk.run_id == run_id)
    return session.execute(query.order_by(TraceChunk.first_step.desc()).limit(1)).scalar_one_or_none() or 0


def read_steps(session: Session, run_id: str, begin: int, stop: int | None) -> list[dict[str, Any]]:
    """Steps begin to stop - 1 in order, fewer where fewer are stored."""
    _must_exist(session, run_id)
    query = select(TraceChunk.first_step, TraceChunk.blob).where(
        TraceChunk.run_id == run_id, TraceChunk.first_step > begin - traces.STEPS_PER_CHUNK
    )
    if stop is not None:
        query = query.where(TraceChunk.first_step < stop)
    found: list[dict[str, Any]] = []
    for first_step, blob in session.execute(query.order_by(TraceChunk.first_step)):
        try:
            chunk = traces.unpack(blob)
        except traces.DamagedChunk as error:
            raise StoreError(
                f"Steps from {first_step} of run {run_id} are damaged ({error}); delete the run and decode again."
            ) from error
        found += chunk[max(0, begin - first_step) : None if stop is None else stop - first_step]
    return found


def annotate(session: Session, run_id: str, tags: Sequence[str] | None, notes: str | None) -> None:
    """Replace tags, notes, or both."""
    values = {"tags": None if tags is None else list(tags), "notes": notes}
    changes = {name: value for name, value in values.items() if value is not None}
    _must_exist(session, run_id)
    if changes:
        session.execute(update(DecodeRun).where(DecodeRun.id == run_id).values(**changes))


def delete(session: Session, run_id: str) -> None:
    """Delete a run that has ended, and with it its steps."""
    status = _status(session, run_id)
    if status in OPEN_STATUSES:
        raise StoreError(f"Run {run_id} is {status}; cancel it before deleting it.")
    session.delete(session.get_one(DecodeRun, run_id))


def trash(session: Session, run_ids: Sequence[str], now: datetime) -> list[str]:
    """Put ended runs into the waste basket; the ids of those that were not in it."""
    states = _states(session, run_ids)
    for run_id, (status, _) in states.items():
        if status in OPEN_STATUSES:
            raise StoreError(f"Run {run_id} is {status}; cancel it before deleting it.")
    return _set_trashed(session, [run_id for run_id, (_, trashed_at) in states.items() if trashed_at is None], now)


def restore(session: Session, run_ids: Sequence[str]) -> list[str]:
    """Take runs out of the waste basket; the ids of those that were in it."""
    states = _states(session, run_ids)
    return _set_trashed(session, [run_id for run_id, (_, trashed_at) in states.items() if trashed_at is not None], None)


def purge(session: Session, before: datetime | None) -> list[str]:
    """Delete what is in the waste basket, or was put there before a moment; the ids of the runs that are gone."""
    query = select(DecodeRun.id).where(DecodeRun.trashed_at.is_not(None)).order_by(DecodeRun.id)
    if before is not None:
        query = query.where(DecodeRun.trashed_at < before)
    doomed = list(session.scalars(query.with_for_update()))
    for some in _chunks(doomed):
        session.execute(sql_delete(DecodeRun).where(DecodeRun.id.in_(some)))
    return doomed


def _states(session: Session, run_ids: Sequence[str]) -> dict[str, tuple[str, datetime | None]]:
    found: dict[str, tuple[str, datetime | None]] = {}
    for some in _chunks(sorted(set(run_ids))):
        query = select(DecodeRun.id, DecodeRun.status, DecodeRun.trashed_at).where(DecodeRun.id.in_(some))
        rows = session.execute(query.order_by(DecodeRun.id).with_for_update())
        found |= {row.id: (row.status, row.trashed_at) for row in rows}
    for run_id in run_ids:
        if run_id not in found:
            raise _unknown(run_id)
    return found


def _set_trashed(session: Session, run_ids: list[str], moment: datetime | None) -> list[str]:
    for some in _chunks(run_ids):
        session.execute(update(DecodeRun).where(DecodeRun.id.in_(some)).values(trashed_at=moment))
    return run_ids


def _chunks(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _must_exist(session: Session, run_id: str) -> None:
    if session.execute(select(DecodeRun.id).where(DecodeRun.id == run_id)).first() is None:
        raise _unknown(run_id)


def _unknown(run_id: str) -> NotFoundError:
    return NotFoundError(f"There is no run {run_id} in this store; list the runs to see their ids.")
