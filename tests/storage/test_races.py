"""Races in the store, for every database it supports: lanes keep their order, and a race lives as long as its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import NotFoundError, Store, StoreError
from storage.identifiers import new_id
from tests.storage.samples import new_run
from tests.storage.test_upgrade import _restore


def add_race(store: Store, count: int = 3) -> tuple[str, list[str]]:
    race_id, runs = new_id(), [new_run(store, f"prompt {number}", start=True) for number in range(count)]
    store.create_race(race_id, runs[::-1])
    return race_id, runs[::-1]


def test_a_race_gives_its_lanes_in_order(store: Store) -> None:
    race_id, runs = add_race(store)
    race = store.get_race(race_id)
    assert [(one.lane, one.run.id) for one in race.lanes] == list(enumerate(runs))
    assert race.created_at == min(store.get_run(run).created_at for run in runs)
    assert race.lanes[0].run == next(run for run in store.list_runs() if run.id == runs[0])
    with pytest.raises(NotFoundError, match="There is no race nobody"):
        store.get_race("nobody")


def test_the_newest_races_come_first(store: Store) -> None:
    made = [add_race(store, 2)[0] for _ in range(3)]
    new_run(store)
    assert [race.id for race in store.list_races()] == made[::-1]
    assert [race.id for race in store.list_races(limit=2)] == made[:0:-1]


def test_a_run_is_a_lane_once_and_has_to_be_there(store: Store) -> None:
    race_id, runs = add_race(store, 2)
    for wrong in ([runs[0], new_run(store)], [new_run(store)] * 2):
        with pytest.raises(StoreError, match="is a lane already"):
            store.create_race(new_id(), wrong)
    with pytest.raises(NotFoundError, match="There is no run nobody"):
        store.create_race(new_id(), [new_run(store), "nobody"])
    assert [race.id for race in store.list_races()] == [race_id]


def test_a_race_loses_the_runs_that_are_deleted_and_is_gone_with_the_last(store: Store) -> None:
    race_id, runs = add_race(store)
    for run in runs:
        store.cancel_run(run)
    store.trash_runs([runs[1]])
    assert store.list_races() == [] and len(store.get_race(race_id).lanes) == 3  # a link still leads there
    store.restore_runs([runs[1]])
    assert len(store.list_races()) == 1
    store.trash_runs([runs[0]])
    store.purge_trash()
    assert [one.lane for one in store.get_race(race_id).lanes] == [1, 2]
    for run in runs[1:]:
        store.delete_run(run)
    assert store.list_races() == []
    with pytest.raises(NotFoundError):
        store.get_race(race_id)


def test_the_race_of_an_old_database_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    _restore("schema_0004.sql", path)
    with Store.open(path) as store:
        (race,) = store.list_races()
        assert (race.id, [one.run.status for one in race.lanes]) == ("race", ["finished", "failed"])
