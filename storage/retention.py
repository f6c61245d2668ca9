"""How much the store holds, and dropping the oldest traces.

Knows the tables; run rows with their counts, texts and settings always stay.
"""

from __future__ import annotations

from sqlalchemy import Row, delete, func, literal, select, update
from sqlalchemy.orm import Session

from storage.records import OPEN_STATUSES
from storage.tables import Dataset, DecodeRun, Drafter, Job, JobMetric, TraceChunk, Version


def totals(session: Session) -> dict[str, int]:
    """How much the tables hold, by the names of `StoreUsage`."""
    counted = {"num_runs": DecodeRun, "num_jobs": Job, "num_metrics": JobMetric, "num_datasets": Dataset}
    found = {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in counted.items()}
    trashed = select(func.count()).select_from(DecodeRun).where(DecodeRun.trashed_at.is_not(None))
    chunks = select(func.count(func.distinct(TraceChunk.run_id)), func.coalesce(func.sum(TraceChunk.num_bytes), 0))
    num_traced, num_bytes = session.execute(chunks).one()
    return found | {
        "num_trashed_runs": session.scalar(trashed) or 0,
        "num_traced_runs": num_traced,
        "trace_bytes": int(num_bytes),
    }


def is_empty(session: Session) -> bool:
    """Whether no table that stands for something a person made has a row."""
    tables = (DecodeRun, Job, Dataset, Drafter, Version)
    return all(session.execute(select(literal(1)).select_from(table).limit(1)).first() is None for table in tables)


def prune(session: Session, keep_runs: int | None, max_bytes: int | None) -> list[str]:
    """Drop the traces of the oldest ended runs until both bounds hold; returns the ids of the runs that lost theirs.

    Open runs are never touched, but count: where they alone pass a bound, it stays passed until they end.
    """
    for name, bound in (("keep_runs", keep_runs), ("max_bytes", max_bytes)):
        if bound is not None and bound < 0:
            raise ValueError(f"{name} must be 0 or more, got {bound}")
    traced = _traced_runs(session)
    num_left, bytes_left = len(traced), sum(row.num_bytes for row in traced)
    doomed: list[str] = []
    for row in traced:
        if (keep_runs is None or num_left <= keep_runs) and (max_bytes is None or bytes_left <= max_bytes):
            break
        if row.status in OPEN_STATUSES:
            continue
        doomed.append(row.run_id)
        num_left, bytes_left = num_left - 1, bytes_left - row.num_bytes
    for run_id in doomed:
        session.execute(delete(TraceChunk).where(TraceChunk.run_id == run_id))
        session.execute(update(DecodeRun).where(DecodeRun.id == run_id).values(traces_pruned=True))
    return doomed


def _traced_runs(session: Session) -> list[Row[tuple[str, str, int]]]:
    query = (
        select(TraceChunk.run_id, DecodeRun.status, func.sum(TraceChunk.num_bytes).label("num_bytes"))
        .join(DecodeRun, DecodeRun.id == TraceChunk.run_id)
        .group_by(TraceChunk.run_id, DecodeRun.status)
        .order_by(TraceChunk.run_id)
    )
    return list(session.execute(query))
