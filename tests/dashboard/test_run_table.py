"""The table of the Runs page: what an address asks, groups that open, what differs, and changes that can be undone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.errors import HeadwayError
from backend.retention import Retention, read_retention, write_retention
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.presenters.run_table import COLUMNS, comparison, table_csv
from dashboard.run_table import PAGE, RunTable, Wanted
from dashboard.services import Services
from storage import Store, StoreError
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine


@pytest.fixture
def table(engine: ReplayEngine, store: Store) -> RunTable:
    return RunTable(Services(engine, AccessPolicy.for_bind(), store))


def asked(**query: str) -> Wanted:
    return Wanted.from_query(query)


def test_pages_sort_and_filter_together(table: RunTable, store: Store) -> None:
    ids = [add_run(store, prompt=f"number {n}", tokens=10 + n) for n in range(PAGE + 7)]
    first = table.page(asked())
    assert [row["id"] for row in first["rows"]] == ids[::-1][:PAGE]
    assert (first["total"], first["pages"], first["page"]) == (PAGE + 7, 2, 0)
    last = table.page(asked(page="99", sort="tokens", desc="0"))
    assert last["page"] == 1 and [row["tokens"] for row in last["rows"]] == list(range(10 + PAGE, 10 + PAGE + 7))
    assert [row["id"] for row in table.page(asked(q=r"number 1\d$", regex="1"))["rows"]] == ids[10:20][::-1]
    assert table.page(asked(q="no such"))["rows"] == []


@pytest.mark.parametrize("group", ["drafter", "tree", "temperature", "rule", "tag", "status", "version"])
def test_each_group_opens_to_exactly_its_runs(table: RunTable, store: Store, group: str) -> None:
    for n in range(12):
        add_run(
            store,
            drafter=f"d{n % 3}",
            tree=[None, "chain-4", "chain-41"][n % 3],
            temperature=[0.7, 0.75][n % 2],
            tags=[(), ("a",), ("a", 'b "c"')][n % 3],
            failed=n % 4 == 0,
        )
    groups = table.page(asked(group=group))["groups"]
    assert len(groups) >= 1 and groups[0]["runs"] == max(one["runs"] for one in groups)
    opened = [one for one in groups if one["filter"] is not None]
    assert opened or group in ("version",)
    for one in opened:
        found = table.page(asked(**{group: one["filter"]}))
        assert found["total"] == one["runs"], one
        assert found["names"][group] == one["name"]


@pytest.mark.parametrize("query", [{"sort": "color"}, {"group": "moon"}, {"tree": "chain-4"}, {"q": "(", "regex": "1"}])
def test_what_an_address_can_get_wrong_is_one_sentence(table: RunTable, query: dict[str, str]) -> None:
    with pytest.raises((HeadwayError, StoreError)) as error:
        table.page(asked(**query))
    assert "\n" not in str(error.value)


def test_a_comparison_shows_what_differs_and_folds_what_is_equal(table: RunTable, store: Store) -> None:
    ids = [add_run(store, temperature=t, tree=tree) for t, tree in [(0.0, "chain-4"), (0.7, "chain-4"), (0.7, None)]]
    found = table.compare(ids)
    differing = {one["name"]: one["values"] for one in found["differing"]}
    assert differing == {
        "temperature": [0.0, 0.7, 0.7],
        "rule": ["greedy", "rejection", "rejection"],
        "tree": ["chain-4", "chain-4", None],
    }
    equal = {one["name"]: one["value"] for one in found["equal"]}
    assert equal["prompt"] == "a prompt" and equal["packages.torch"] == "2.13" and not set(equal) & set(differing)
    assert [one["id"] for one in found["runs"]] == ids
    for wrong in (ids[:1], [ids[0]] * 3, ids * 9 + [f"r{n}" for n in range(9)]):
        with pytest.raises(HeadwayError, match="Select two to"):
            table.compare(wrong)


def test_a_setting_that_one_run_lacks_differs(store: Store) -> None:
    run = store.get_run(add_run(store))
    without = replace(run, settings={name: value for name, value in run.settings.items() if name != "device"})
    assert comparison([run, without])["differing"] == [{"name": "device", "values": ["cpu", None]}]


def test_exports_hold_every_run_and_no_formula(table: RunTable, store: Store) -> None:
    add_run(store, prompt='=HYPERLINK("x"), "quoted"\nand more', tags=("a", "b c"))
    add_run(store, failed=True)
    rows = table.rows(asked(desc="0"))
    read = list(csv.DictReader(io.StringIO(table_csv(rows))))
    assert list(read[0]) == list(COLUMNS) and len(read) == 2
    assert read[0]["prompt"].startswith("'=") and read[0]["tags"] == "a b c"
    assert read[0]["acceptance_length"] == str(rows[0]["acceptance_length"]) and read[1]["tokens"] == ""


def test_tags_notes_and_the_waste_basket(table: RunTable, store: Store) -> None:
    one, two = add_run(store, tags=("old",)), add_run(store)
    table.tag([one, two], add=["new", "new"], remove=["old"])
    assert [store.get_run(run).tags for run in (one, two)] == [("new",)] * 2
    assert table.note(one, "remember <this> ${x}")["notes"] == "remember <this> ${x}"
    with pytest.raises(HeadwayError, match="at most"):
        table.tag([one], add=["x" * 99], remove=[])
    moved = table.trash([one])["moved"]
    assert moved == [one] and [row["id"] for row in table.page(asked())["rows"]] == [two]
    assert [row["id"] for row in table.page(asked(trashed="1"))["rows"]] == [one]
    table.restore(moved)
    assert table.page(asked())["total"] == 2
    table.trash([one])
    assert table.purge() == {"purged": 1} and table.usage()["num_runs"] == 1


def test_pruning_drops_steps_keeps_numbers_and_remembers_its_bounds(
    engine: ReplayEngine, store: Store, tmp_path: Path
) -> None:
    places = Settings(home=tmp_path / "home", cache=tmp_path)
    table = RunTable(Services(engine, AccessPolicy.for_bind(), store, places=places))
    assert table.usage()["retention"] == {"keep_runs": None, "max_bytes": 1 << 30}
    ids = [add_run(store) for _ in range(3)]
    assert table.prune(1, None) == {"pruned": 2}
    rows = {row["id"]: row for row in table.page(asked())["rows"]}
    assert [rows[one]["replayable"] for one in ids] == [False, False, True] and rows[ids[0]]["tokens"]
    assert table.usage()["retention"] == {"keep_runs": 1, "max_bytes": None}
    assert read_retention(places.home) == Retention(keep_runs=1, max_bytes=None)
    (places.home / "retention.json").write_text('{"keep_runs": -1}')
    assert read_retention(places.home) == Retention()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(HeadwayError, match="make room"):
        write_retention(blocked / "home", Retention())


def test_routes_answer_with_one_sentence(dashboard: Callable[..., FastAPI], store: Store) -> None:
    client = TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")
    ids = [add_run(store), add_run(store, temperature=0.5)]
    assert client.get("/headway/table").json()["total"] == 2
    assert client.get("/headway/table/compare", params=[("run", one) for one in ids]).status_code == 200
    assert client.get("/headway/table.csv").text.count("\n") == 3
    assert len(json.loads(client.get("/headway/table.json").text)) == 2
    assert client.get(f"/headway/table/runs/{ids[0]}").json()["notes"] == ""
    assert client.get("/headway/table/usage").json()["num_runs"] == 2
    assert client.post("/headway/table/trash", json={"ids": [ids[0]]}).json() == {"moved": [ids[0]]}
    refused = [
        client.get("/headway/table?sort=color"),
        client.get("/headway/table.xls"),
        client.post("/headway/table/trash", json={"ids": "all"}),
        client.post("/headway/table/prune", json={"keep_runs": -1}),
        client.post("/headway/table/prune", json={"keep_runs": True}),
        client.post("/headway/table/explode", json={}),
    ]
    assert [answer.status_code for answer in refused] == [400] * 6
    assert all("\n" not in answer.json()["error"] for answer in refused)
