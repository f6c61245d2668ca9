"""Queries about decode runs and their traces, each a function of an open session.

Knows the tables; knows nothing of engines, locks or retries, which are `store`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, Row, Select, func, or_, select, type_coerce, update
from sqlalchemy.orm import Session

from storage import traces
from storage.columns import ExactText
from storage.errors import NotFoundError, StoreError
from storage.records import OPEN_STATUSES, RunFilter, RunOrder, RunRecord, RunResult, RunStatus, RunSummary
from storage.tables import DecodeRun, TraceChunk, Version

_PROMPT_START = 200
_INTERRUPTED = "The program that ran this stopped before the run ended; run it again."
_DERIVED = {
    "prompt_start": func.substr(DecodeRun.prompt, 1, _PROMPT_START, type_=ExactText),
    "version_label": Version.label,
}
_TUPLES = ("tags", "tokens", "accepted_per_depth", "drafted_per_depth")
_ACCEPTED_PER_STEP = DecodeRun.num_accepted * 1.0 / func.nullif(DecodeRun.num_steps, 0)
# Runs without the number come last: "is NULL" sorts false before true (NULLS LAST needs a newer SQLite than some have).
_ORDERS: dict[RunOrder, tuple[ColumnElement[Any], ...]] = {
    "newest": (DecodeRun.id.desc(),),
    "oldest": (DecodeRun.id.asc(),),
    "most_tokens": (DecodeRun.num_tokens.is_(None), DecodeRun.num_tokens.desc(), DecodeRun.id.desc()),
    "longest": (DecodeRun.wall_ms.is_(None), DecodeRun.wall_ms.desc(), DecodeRun.id.desc()),
    "best_acceptance": (_ACCEPTED_PER_STEP.is_(None), _ACCEPTED_PER_STEP.desc(), DecodeRun.id.desc()),
}


def get(session: Session, run_id: str) -> RunRecord:
    """One run with all but its steps."""
    row = session.execute(_select(RunRecord).where(DecodeRun.id == run_id)).one_or_none()
    if row is None:
        raise _unknown(run_id)
    return RunRecord(**_values(row))


def summaries(session: Session, where: RunFilter, order: RunOrder, limit: int, offset: int) -> list[RunSummary]:
    """One page of the table of runs; reads neither traces nor long texts, unless it must search them."""
    query = _select(RunSummary).where(*_conditions(where)).order_by(*_ORDERS[order])
    return [RunSummary(**_values(row)) for row in session.execute(query.limit(limit).offset(offset))]


def count(session: Session, where: RunFilter) -> int:
    """How many runs a filter leaves."""
    return session.execute(select(func.count()).select_from(DecodeRun).where(*_conditions(where))).scalar_one()


def _select(record: type[RunSummary]) -> Select[Any]:
    names = [field.name for field in fields(record)]
    named: list[ColumnElement[Any]] = [
        (_DERIVED[name] if name in _DERIVED else getattr(DecodeRun, name)).label(name) for name in names
    ]
    return select(*named).select_from(DecodeRun).outerjoin(Version, Version.id == DecodeRun.version_id)


def _values(row: Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)
    for name in _TUPLES:
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    return values


def _conditions(where: RunFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if where.status is not None:
        conditions.append(DecodeRun.status == where.status)
    if where.drafter is not None:
        conditions.append(or_(DecodeRun.drafter_name == where.drafter, DecodeRun.drafter_id == where.drafter))
    if where.version_id is not None:
        conditions.append(DecodeRun.version_id == where.version_id)
    if where.search:
        conditions.append(_search(where.search))
    return conditions


def _search(wanted: str) -> ColumnElement[bool]:
    texts = (DecodeRun.prompt, DecodeRun.text, DecodeRun.notes, DecodeRun.drafter_name)
    found = [column.icontains(wanted, autoescape=True) for column in texts]
    in_json = json.dumps(wanted, ensure_ascii=False)[1:-1]  # as the tags' column spells it
    tagged = type_coerce(DecodeRun.tags, ExactText).icontains(in_json, autoescape=True)
    return or_(DecodeRun.id == wanted, tagged, *found)


def start(session: Session, run_id: str, now: datetime, **known: Any) -> None:
    """queued -> running, with what became known since it was queued (None: nothing new)."""
    values = {name: value for name, value in known.items() if value is not None}
    _move(session, run_id, ("queued",), status="running", started_at=now, **values)


def end(
    session: Session, run_id: str, status: RunStatus, now: datetime, result: RunResult | None, error: str | None
) -> None:
    """To one of the final statuses; only a running run can finish, a queued one can be cancelled or fail."""
    values: dict[str, Any] = asdict(result) if result else {}
    for name in _TUPLES:
        if name in values:
            values[name] = list(values[name])
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


def _must_exist(session: Session, run_id: str) -> None:
    if session.execute(select(DecodeRun.id).where(DecodeRun.id == run_id)).first() is None:
        raise _unknown(run_id)


def _unknown(run_id: str) -> NotFoundError:
    return NotFoundError(f"There is no run {run_id} in this store; list the runs to see their ids.")
