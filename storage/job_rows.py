"""Queries about what jobs write while they run: metrics and items, each a function of an open session.

All that one job writes is numbered by one counter, in the order of the commits: whoever has seen everything up to a
number asks for what came after it, and misses nothing. Knows the tables, not what the figures mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from storage import jobs
from storage.job_records import ItemRecord, MetricRecord
from storage.tables import Job, JobItem, JobMetric

_AT_ONCE = 500  # ids in one IN (…): SQLite takes a limited number of parameters


def add_metrics(session: Session, job_id: str, attempt: int, rows: Iterable[tuple[int, Mapping[str, float]]]) -> None:
    """Put figures to steps; a step that is there keeps its other figures."""
    wanted: dict[int, dict[str, float]] = {}
    for step, figures in rows:
        wanted.setdefault(step, {}).update(figures)
    seqs = _take_numbers(session, job_id, attempt, len(wanted))
    there = _stored_figures(session, job_id, list(wanted))
    fresh: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for seq, (step, figures) in zip(seqs, wanted.items(), strict=True):
        row = {"job_id": job_id, "step": step, "seq": seq, "figures": there.get(step, {}) | figures}
        (changed if step in there else fresh).append(row)
    if changed:
        session.execute(update(JobMetric), changed)
    if fresh:
        session.execute(insert(JobMetric), fresh)


def _stored_figures(session: Session, job_id: str, steps: Sequence[int]) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for start in range(0, len(steps), _AT_ONCE):
        query = select(JobMetric.step, JobMetric.figures).where(
            JobMetric.job_id == job_id, JobMetric.step.in_(steps[start : start + _AT_ONCE])
        )
        found |= {row.step: row.figures for row in session.execute(query)}
    return found


def drop_metrics_after(session: Session, job_id: str, attempt: int, step: int) -> None:
    """Forget the figures of all steps after one: an attempt that goes on from a checkpoint does them again."""
    jobs.write_as(session, job_id, attempt, attempt=attempt)
    session.execute(delete(JobMetric).where(JobMetric.job_id == job_id, JobMetric.step > step))


def metrics(session: Session, job_id: str, after_seq: int, limit: int | None) -> list[MetricRecord]:
    """What was written after a number, in the order of writing."""
    _must_exist(session, job_id)
    query = select(JobMetric.seq, JobMetric.step, JobMetric.figures)
    query = query.where(JobMetric.job_id == job_id, JobMetric.seq > after_seq).order_by(JobMetric.seq).limit(limit)
    return [MetricRecord(seq=row.seq, step=row.step, values=row.figures) for row in session.execute(query)]


def put_items(session: Session, job_id: str, attempt: int, items: Mapping[str, dict[str, Any]]) -> None:
    """Keep results by key; a key that is there is replaced."""
    seqs = _take_numbers(session, job_id, attempt, len(items))
    for seq, (key, data) in zip(seqs, items.items(), strict=True):
        session.merge(JobItem(job_id=job_id, key=key, seq=seq, data=data))


def items(session: Session, job_id: str, after_seq: int) -> list[ItemRecord]:
    """The results written after a number, in the order of writing."""
    _must_exist(session, job_id)
    query = select(JobItem.seq, JobItem.key, JobItem.data)
    query = query.where(JobItem.job_id == job_id, JobItem.seq > after_seq).order_by(JobItem.seq)
    return [ItemRecord(seq=row.seq, key=row.key, data=row.data) for row in session.execute(query)]


def _take_numbers(session: Session, job_id: str, attempt: int, count: int) -> range:
    # The job's row stays locked until the commit, so numbers become visible in their order.
    jobs.write_as(session, job_id, attempt, last_seq=Job.last_seq + count)
    last = session.execute(select(Job.last_seq).where(Job.id == job_id)).scalar_one()
    return range(last - count + 1, last + 1)


def _must_exist(session: Session, job_id: str) -> None:
    if session.execute(select(Job.id).where(Job.id == job_id)).first() is None:
        jobs.get(session, job_id)
