"""Queries about races: which runs belong together as lanes; each a function of an open session.

A race is its lanes: there is no row for the race itself, so with the last of its runs it is gone. Knows the tables;
knows nothing of engines, locks or retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from storage import run_list
from storage.errors import NotFoundError, StoreError
from storage.records import RaceLane, RaceRecord
from storage.tables import DecodeRun
from storage.tables import RaceLane as LaneRow


def create(session: Session, race_id: str, run_ids: Sequence[str]) -> None:
    """Note that these runs are lanes 0, 1, … of one race."""
    run_list.summaries_of(session, run_ids)  # each has to be there
    taken = session.scalars(select(LaneRow.run_id).where(LaneRow.run_id.in_(run_ids))).first()
    if taken is not None or len(set(run_ids)) != len(run_ids):
        raise StoreError(f"Run {taken or run_ids[0]} is a lane already; start a new race.")
    session.add_all(LaneRow(race_id=race_id, lane=lane, run_id=run_id) for lane, run_id in enumerate(run_ids))


def get(session: Session, race_id: str) -> RaceRecord:
    """One race with those of its runs that are left."""
    found = _records(session, [race_id])
    if not found:
        raise NotFoundError(f"There is no race {race_id} in this store; its runs may have been deleted.")
    return found[0]


def newest(session: Session, limit: int) -> list[RaceRecord]:
    """The newest races; those with a run in the waste basket are left out."""
    query = select(LaneRow.race_id).join(DecodeRun, DecodeRun.id == LaneRow.run_id).group_by(LaneRow.race_id)
    query = query.having(func.count(DecodeRun.trashed_at) == 0).order_by(LaneRow.race_id.desc())
    return _records(session, list(session.scalars(query.limit(limit))))


def _records(session: Session, race_ids: Sequence[str]) -> list[RaceRecord]:
    query = select(LaneRow.race_id, LaneRow.lane, LaneRow.run_id).where(LaneRow.race_id.in_(race_ids))
    rows = session.execute(query.order_by(LaneRow.race_id.desc(), LaneRow.lane)).all()
    runs = run_list.summaries_of(session, [row.run_id for row in rows])
    found = []
    for race_id, lanes in groupby(rows, key=lambda row: row.race_id):
        known = tuple(RaceLane(lane=row.lane, run=runs[row.run_id]) for row in lanes)
        found.append(RaceRecord(id=race_id, created_at=min(one.run.created_at for one in known), lanes=known))
    return found
