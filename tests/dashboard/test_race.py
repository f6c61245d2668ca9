"""What the Race page asks: a race from its form, one looked up again, how it stands, and what is refused."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.engine.race_reading import lane_names
from backend.errors import HeadwayError
from backend.jobs.as_text import take_config_file
from backend.jobs.race_command import add_arguments, race_of
from dashboard.access import AccessPolicy
from dashboard.presenters.race import form_of, race_from
from dashboard.races import Races
from dashboard.services import Services
from storage import NotFoundError, Store
from storage.identifiers import new_id
from tests.dashboard.stored_runs import add_run
from tests.engine.asking import ask
from tests.ui.replay_engine import ReplayEngine

LANES = [{"drafter": "none"}, {"drafter": "builtin-medusa", "tree": "chain-2"}]
FORM: dict[str, Any] = {"prompt": "Why?", "lanes": LANES, "max_new_tokens": 16, "seed": 3}


@pytest.fixture
def races(engine: ReplayEngine, store: Store) -> Races:
    return Races(Services(engine, AccessPolicy.for_bind(), store))


def over(engine: ReplayEngine, runs: list[str]) -> None:
    for run in runs:
        list(engine.events(run))


def test_a_form_becomes_a_request_for_each_lane_and_back() -> None:
    request = race_from(FORM | {"system": "Be brief."})
    assert [lane.drafter for lane in request.lanes] == ["none", "builtin-medusa"]
    assert [lane.tree for lane in request.lanes] == [None, "chain-2"]
    shared = {(lane.max_new_tokens, lane.seed, lane.messages[0].content) for lane in request.lanes}
    assert shared == {(16, 3, "Be brief.")}
    assert race_from(form_of(request.lanes)) == request
    warm = race_from(FORM | {"lanes": [*LANES, {"drafter": "ngram", "temperature": 0.7, "rule": "typical"}]})
    assert [lane.rule for lane in warm.lanes] == ["greedy", "greedy", "typical"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompt": " "}, "^Type a prompt first.$"),
        ({"max_new_tokens": None}, "^Longest answer needs a number.$"),
        ({"max_new_tokens": 9000}, "^The longest answer must be"),
        ({"lanes": [{}, {"temperature": None}]}, "^Lane B: Temperature needs a number.$"),
        ({"lanes": [{}, {}, {"max_depth": "deep"}]}, "^Lane C: Depth is “all” or a whole number"),
        ({"lanes": [{"drafter": " "}, {}]}, "^Lane A: Choose a drafter first"),
        ({"lanes": [{"rule": "best"}]}, "has to be 'exact' or 'typical'"),
        ({"lanes": "two"}, "^Lanes has to be"),
        ({"colour": "red"}, "^There is no setting named “colour”"),
    ],
)
def test_what_is_wrong_with_a_form_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence) as raised:
        race_from(FORM | change)
    assert "\n" not in str(raised.value)


def test_lanes_are_named_by_what_tells_them_apart() -> None:
    def names(*lanes: dict[str, Any]) -> list[str]:
        return lane_names([ask(**lane).model_dump(mode="json") for lane in lanes])

    assert names({"drafter": "none"}, {}, {"drafter": "/home/me/heads", "tree": "4x2x1", "max_depth": 2}) == [
        "plain decoding", "n-gram lookup", "heads · 4x2x1 · depth 2",
    ]  # fmt: skip
    assert names({}, {"temperature": 0.7, "rule": "typical"}) == [
        "n-gram lookup · T 0",
        "n-gram lookup · T 0.7 · typical",
    ]
    assert names({}, {"target": "/models/tuned"}) == ["n-gram lookup · tiny-llama", "n-gram lookup · tuned"]
    assert names({}, {"tree": "[[0],[0,0],[0,0,0]]"})[1] == "n-gram lookup · [[0],[0,0],[0,0,0…"


def test_a_race_as_command_and_file_gives_the_same_race(races: Races, tmp_path: Path) -> None:
    lanes: list[dict[str, Any]] = [*LANES, {"drafter": "/my heads/one", "tree": "[[0], [0, 0]]", "max_depth": "1"}]
    lanes.append({"drafter": "ngram", "temperature": 0.7, "rule": "typical"})
    form = FORM | {"system": "Be brief.", "lanes": lanes}
    wanted = race_from(form)
    command = shlex.split(races.text("command", form)["text"])
    assert command[:2] == ["./run", "race"] and race_of(parsed(*command[2:])) == wanted
    file = tmp_path / "race.yaml"
    file.write_text(races.text("yaml", form)["text"], encoding="utf-8")
    assert race_of(parsed("--config", str(file))) == wanted
    with pytest.raises(HeadwayError, match="command or yaml"):
        races.text("song", form)
    with pytest.raises(HeadwayError, match="this one has 0"):
        races.text("command", FORM | {"lanes": []})


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    take_config_file(parser)
    return parser.parse_args(words)


def test_a_race_is_started_followed_and_looked_up_again(engine: ReplayEngine, races: Races) -> None:
    started = races.start(FORM)
    assert [(lane["letter"], lane["name"]) for lane in started["lanes"]] == [
        ("A", "plain decoding"), ("B", "built-in Medusa heads · chain-2"),
    ]  # fmt: skip
    assert started["missing"] == [] and started["form"]["lanes"][1]["tree"] == "chain-2"
    over(engine, [lane["run"] for lane in started["lanes"]])
    assert races.view(started["race"]) == started
    standing = races.standing(started["race"])
    assert standing is not None and standing["same"] is True and standing["lanes"][0]["num_tokens"] > 0


def test_a_race_that_goes_on_has_no_standing_and_can_be_stopped(store: Store) -> None:
    engine = ReplayEngine(steps_per_s=None, hold_after=2)
    races = Races(Services(engine, AccessPolicy.for_bind(), store))
    started = races.start(FORM)
    assert races.standing(started["race"]) is None
    races.stop(started["race"])
    engine.allow(None)
    over(engine, [lane["run"] for lane in started["lanes"]])
    standing = races.standing(started["race"])
    assert standing is not None and "stopped before any lane" in standing["speed"]
    engine.close()


def test_stored_races_are_listed_and_shown_without_what_was_deleted(races: Races, store: Store) -> None:
    runs = [add_run(store, prompt="Why is the sky blue?", tree=tree) for tree in ("chain-2", "chain-4", "2x2")]
    race_id = new_id()
    store.create_race(race_id, runs)
    (row,) = races.recent()
    assert (row["id"], row["prompt"], row["status"]) == (race_id, "Why is the sky blue?", "finished")
    assert [lane[:2] for lane in row["lanes"]] == ["A ", "B ", "C "]
    store.delete_run(runs[1])
    found = races.view(race_id)
    assert [lane["letter"] for lane in found["lanes"]] == ["A", "C"] and found["missing"] == ["B"]
    with pytest.raises(NotFoundError, match="There is no race nobody"):
        races.view("nobody")


def test_without_a_database_only_this_process_knows_its_races(engine: ReplayEngine) -> None:
    races = Races(Services(engine, AccessPolicy.for_bind()))
    assert races.recent() == [] and races.view(races.start(FORM)["race"])["lanes"]
    with pytest.raises(HeadwayError, match="There is no race nobody"):
        races.view("nobody")


def test_what_a_lane_can_be_made_of_is_offered(races: Races, store: Store) -> None:
    found = races.choices("smollm2-135m")
    assert ("SmolLM2-135M-Instruct (built in)", "smollm2-135m") in found["targets"]
    assert {spec for _, spec in found["drafters"]} >= {"builtin-medusa", "ngram", "none"}


def test_the_routes_answer(dashboard: Callable[..., FastAPI], engine: ReplayEngine, store: Store) -> None:
    client = TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")
    assert client.get("/headway/races").json() == []
    assert client.get("/headway/races/choices?target=x").status_code == 200
    refused = client.post("/headway/races", json=FORM | {"prompt": ""})
    assert refused.status_code == 400 and refused.json() == {"error": "Type a prompt first."}
    started = client.post("/headway/races", json=FORM).json()
    over(engine, [lane["run"] for lane in started["lanes"]])
    base = f"/headway/races/{started['race']}"
    assert client.get(base).json()["lanes"] == started["lanes"]
    assert client.get(base + "/standing").json()["lanes"][0]["place"] is not None
    assert client.post(base + "/stop").json() == {}
    assert client.get("/headway/races/nobody").status_code == 404
