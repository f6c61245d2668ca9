"""The part of the store about races. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Sequence

from storage import races
from storage.records import RaceRecord
from storage.store_base import StoreBase


class RaceStore(StoreBase):
    """Which decode runs were lanes of one race."""

    def create_race(self, race_id: str, run_ids: Sequence[str]) -> None:
        """These runs, which are there already, are lanes 0, 1, … of the race called `race_id` (see
        identifiers.new_id); a run is a lane of one race at most.
        """
        with self._writing() as session:
            races.create(session, race_id, run_ids)

    def get_race(self, race_id: str) -> RaceRecord:
        """One race, with those of its runs that are left; NotFoundError when none is."""
        with self._reading() as session:
            return races.get(session, race_id)

    def list_races(self, limit: int = 20) -> list[RaceRecord]:
        """The newest races first, without those of which a run lies in the waste basket."""
        with self._reading() as session:
            return races.newest(session, limit)
