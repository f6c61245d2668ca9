"""Queries about jobs: the queue, the lease and the states, each a function of an open session.

    queued -> running -> finished | failed | stopped | paused | interrupted
    queued -> stopped | paused          paused, interrupted -> stopped
    paused, stopped, interrupted, failed -> queued (again)

Every lease counts the attempt up; a worker writes with the number of its attempt, and a write of an older attempt, or
to a job that is not running, is refused. Knows the tables; knows nothing of what a job does, and never compares wall
clocks: laptops sleep and clocks jump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, Select, func, select, update
from sqlalchemy.orm import Session

from storage.errors import NotFoundError, StaleAttemptError, StoreError
from storage.job_records import OPEN_JOB_STATUSES, JobEnd, JobOrder, JobRecord, JobRequest, JobStatus
from storage.tables import Dataset, Drafter, Job, Version

_DIED = "The process that worked on this ended before the job did; resume the job to go on."
_RESUMABLE: tuple[JobStatus, ...] = ("paused", "stopped", "interrupted", "failed")
#: The states in which nobody works on a job, so that a request takes effect at once.
_AT_ONCE: dict[JobRequest, tuple[JobStatus, ...]] = {"stop": ("queued", "paused", "interrupted"), "pause": ("queued",)}
_ENDED: dict[JobRequest, JobStatus] = {"stop": "stopped", "pause": "paused"}
_LINKED = {"version_id": Version, "drafter_id": Drafter, "dataset_id": Dataset}


def get(session: Session, job_id: str) -> JobRecord:
    """One job; NotFoundError if there is none."""
    row = session.execute(select(Job).where(Job.id == job_id)).scalar_one_or_none()
    if row is None:
        raise _unknown(job_id)
    return _record(row)


def listed(
    session: Session,
    kinds: Sequence[str] | None,
    statuses: Sequence[JobStatus] | None,
    order: JobOrder,
    limit: int,
    offset: int,
) -> list[JobRecord]:
    """One page of the jobs."""
    ordered = (Job.id.desc(),) if order == "newest" else (Job.position, Job.id)
    query = _matching(select(Job), kinds, statuses).order_by(*ordered).limit(limit).offset(offset)
    return [_record(row) for row in session.scalars(query)]


def count(session: Session, kinds: Sequence[str] | None, statuses: Sequence[JobStatus] | None) -> int:
    """How many jobs there are."""
    total: int = session.execute(_matching(select(func.count()).select_from(Job), kinds, statuses)).scalar_one()
    return total


def _matching(query: Select[Any], kinds: Sequence[str] | None, statuses: Sequence[JobStatus] | None) -> Select[Any]:
    if kinds is not None:
        query = query.where(Job.kind.in_(kinds))
    return query if statuses is None else query.where(Job.status.in_(statuses))


def last_position(session: Session) -> int:
    """The position of a job that joins the end of the queue."""
    last: int | None = session.execute(select(func.max(Job.position))).scalar_one()
    return (last or 0) + 1


def refuse_second(session: Session, exclusive: str | None, job_id: str | None = None) -> None:
    """StoreError where an open job other than `job_id` has the same place for itself."""
    if exclusive is None:
        return
    query = select(Job.id, Job.name, Job.status).where(
        Job.exclusive == exclusive, Job.status.in_(OPEN_JOB_STATUSES), Job.id != (job_id or "")
    )
    other = session.execute(query).first()
    if other is not None:
        raise StoreError(
            f"Job {other.id} ({other.name}) is {other.status} and writes to {exclusive} too; wait for it, stop it, or "
            "choose another place."
        )


def lease(
    session: Session,
    owner: str,
    now: datetime,
    job_id: str | None,
    kinds: Sequence[str] | None,
    devices: Sequence[str] | None,
) -> JobRecord | None:
    """The first job in the queue, from now on this owner's; None where none waits."""
    query = _matching(select(Job.id), kinds, ["queued"])
    if job_id is not None:
        query = query.where(Job.id == job_id)
    if devices is not None:
        query = query.where(Job.device.in_(devices))
    # On PostgreSQL a row that another process is leasing right now is passed over; SQLite has one writer at a time.
    query = query.order_by(Job.position, Job.id).limit(1).with_for_update(skip_locked=True)
    found = session.execute(query).scalar_one_or_none()
    if found is None:
        return None
    fresh = {"beat": 0, "requested": None, "error": None, "result": None, "started_at": now, "finished_at": None}
    change = update(Job).where(Job.id == found, Job.status == "queued")
    session.execute(change.values(status="running", owner=owner, attempt=Job.attempt + 1, **fresh))
    return get(session, found)


def write_as(session: Session, job_id: str, attempt: int, /, **values: Any) -> None:
    """Change the row of a running job, if this attempt is still the one that runs; StaleAttemptError if not."""
    change = update(Job).where(Job.id == job_id, Job.status == "running", Job.attempt == attempt).values(**values)
    if cast(CursorResult[Any], session.execute(change)).rowcount == 0:
        status, current = _state(session, job_id)
        raise StaleAttemptError(
            f"Job {job_id} is {status} in attempt {current}, so attempt {attempt} can no longer write to it; "
            "this worker must end."
        )


def heartbeat(session: Session, job_id: str, attempt: int, progress: dict[str, Any] | None) -> JobRequest | None:
    """Count the beat up; what the job was asked for."""
    values: dict[str, Any] = {} if progress is None else {"progress": progress}
    write_as(session, job_id, attempt, beat=Job.beat + 1, **values)
    return cast(JobRequest | None, session.execute(select(Job.requested).where(Job.id == job_id)).scalar_one())


def end(
    session: Session,
    job_id: str,
    attempt: int,
    status: JobEnd,
    now: datetime,
    result: dict[str, Any] | None,
    error: str | None,
) -> None:
    """running -> one of the states in which nobody works on it."""
    write_as(session, job_id, attempt, status=status, finished_at=now, requested=None, result=result, error=error)


def interrupt_dead(session: Session, is_alive: Callable[[str], bool], now: datetime) -> list[str]:
    """running -> interrupted for the jobs whose owner is dead; their ids."""
    query = select(Job.id, Job.attempt, Job.owner).where(Job.status == "running").order_by(Job.id).with_for_update()
    dead = [row for row in session.execute(query) if row.owner is not None and not is_alive(row.owner)]
    for row in dead:
        end(session, row.id, row.attempt, "interrupted", now, None, _DIED)
    return [row.id for row in dead]


def request(session: Session, job_id: str, wanted: JobRequest, now: datetime) -> None:
    """Ask a running job, or do it at once where nobody works on it. Asking for what is already so changes nothing."""
    status, _ = _state(session, job_id)
    if status == _ENDED[wanted]:
        return
    if status == "running":
        # Whoever asked to stop is not overruled by a pause that comes later.
        change = update(Job).where(Job.id == job_id)
        if wanted == "pause":
            change = change.where(Job.requested.is_(None))
        session.execute(change.values(requested=wanted))
    elif status in _AT_ONCE[wanted]:
        session.execute(update(Job).where(Job.id == job_id).values(status=_ENDED[wanted], finished_at=now))
    else:
        raise StoreError(f"Job {job_id} is {status}, so there is nothing to {wanted}.")


def resume(session: Session, job_id: str, front: bool) -> None:
    """paused, stopped, interrupted or failed -> queued, at the end of the queue or at its front."""
    status, _ = _state(session, job_id)
    if status not in _RESUMABLE:
        raise StoreError(f"Job {job_id} is {status}, so it cannot be resumed; start a new one.")
    exclusive = session.execute(select(Job.exclusive).where(Job.id == job_id)).scalar_one()
    refuse_second(session, exclusive, job_id)
    position = last_position(session)
    if front:
        first = session.execute(select(func.min(Job.position)).where(Job.status == "queued")).scalar_one()
        position = position if first is None else first - 1
    values = {"status": "queued", "requested": None, "owner": None, "finished_at": None, "position": position}
    session.execute(update(Job).where(Job.id == job_id).values(**values))


def move(session: Session, job_id: str, before: str | None) -> None:
    """Put a queued job before another queued one, or at the end of the queue."""
    query = select(Job.id, Job.position).where(Job.status == "queued").order_by(Job.position, Job.id)
    queue = list(session.execute(query.with_for_update()))
    names = [row.id for row in queue]
    for name in (job_id, before):
        if name is not None and name not in names:
            status, _ = _state(session, name)
            raise StoreError(f"Job {name} is {status}, not queued, so it has no place in the queue.")
    if before == job_id:
        return
    names.remove(job_id)
    names.insert(len(names) if before is None else names.index(before), job_id)
    for position, name in zip(sorted(row.position for row in queue), names, strict=True):
        session.execute(update(Job).where(Job.id == name).values(position=position))


def link(session: Session, job_id: str, attempt: int, **ids: str | None) -> None:
    """Name what the job made or works on; None changes nothing."""
    given = {name: id for name, id in ids.items() if id is not None}
    check_links(session, **given)
    write_as(session, job_id, attempt, attempt=attempt, **given)


def check_links(session: Session, **ids: str | None) -> None:
    """NotFoundError for a version, drafter or dataset that the store does not hold."""
    for name, id in ids.items():
        if id is not None and session.get(_LINKED[name], id) is None:
            raise NotFoundError(f"There is no {name.removesuffix('_id')} {id} in this store; register it first.")


def annotate(session: Session, job_id: str, name: str | None, tags: Sequence[str] | None, notes: str | None) -> None:
    """Replace name, tags, notes; None leaves one as it is."""
    values = {"name": name, "tags": None if tags is None else list(tags), "notes": notes}
    changes = {key: value for key, value in values.items() if value is not None}
    _state(session, job_id)
    if changes:
        session.execute(update(Job).where(Job.id == job_id).values(**changes))


def delete(session: Session, job_id: str) -> None:
    """Delete a job that holds nothing any more, with its metrics and items."""
    status, _ = _state(session, job_id)
    if status in OPEN_JOB_STATUSES:
        raise StoreError(f"Job {job_id} is {status}; stop it before deleting it.")
    session.delete(session.get_one(Job, job_id))


def _state(session: Session, job_id: str) -> tuple[JobStatus, int]:
    """Status and attempt; the row stays as it is until the transaction ends."""
    query = select(Job.status, Job.attempt).where(Job.id == job_id).with_for_update()
    row = session.execute(query).one_or_none()
    if row is None:
        raise _unknown(job_id)
    return cast(JobStatus, row.status), row.attempt


def _record(row: Job) -> JobRecord:
    values = {name: getattr(row, name) for name in JobRecord.__dataclass_fields__}
    return JobRecord(**values | {"tags": tuple(row.tags)})


def _unknown(job_id: str) -> NotFoundError:
    return NotFoundError(f"There is no job {job_id} in this store; list the jobs to see their ids.")
