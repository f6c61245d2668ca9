"""What the Compare page says: sides of every kind, what is paired, notes, one prompt, files, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.errors import HeadwayError
from dashboard.access import AccessPolicy
from dashboard.comparing import Comparisons, Wanted
from dashboard.jobs import Jobs
from dashboard.presenters.comparing import COLUMNS, drift_of_steps, spans_of_steps
from dashboard.services import Services
from storage import NotFoundError, Store
from tests.dashboard.comparisons import add_compared
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine


@pytest.fixture
def comparisons(store: Store, engine: ReplayEngine) -> Comparisons:
    services = Services(engine, AccessPolicy.for_bind(), store)
    return Comparisons(services, Jobs(services))


def view(comparisons: Comparisons, *sides: str, **rest: Any) -> dict[str, Any]:
    return comparisons.view(Wanted(tuple(sides), **rest))


def test_drafters_of_one_evaluation_are_compared_on_its_prompts(store: Store, comparisons: Comparisons) -> None:
    job = add_compared(store, "both", {"good": 0.8, "poor": 0.3}, temperatures=(0.0, 1.0))
    found = view(comparisons, f"eval/{job}/poor", f"eval/{job}/good")
    assert found["common"] == 12 and found["answers"] == 24 and found["notes"] == []
    assert [side["letter"] for side in found["sides"]] == ["A", "B"]
    assert "B (good) is better on every count" in found["sentence"]
    assert {one["name"] for one in found["differing"]} == {"drafter"}
    assert [line["name"] for line in found["figures"]] == ["acceptance_length", "tokens_per_s", "speedup"]
    assert {(one["by"], one["value"]) for one in found["splits"]} >= {("domain", "code"), ("temperature", "1")}
    cold = view(comparisons, f"eval/{job}/poor", f"eval/{job}/good", temperature=0.0, domain="code")
    assert cold["common"] == 4 and cold["answers"] == 4 and cold["domains"] == ["chat", "code", "maths"]


def test_prompts_are_paired_by_what_is_asked_and_the_others_are_told(store: Store, comparisons: Comparisons) -> None:
    first = add_compared(store, "first", {"good": 0.7}, prompts=12)
    second = add_compared(store, "second", {"good": 0.7}, prompts=12, first=8)
    found = view(comparisons, f"eval/{first}/good", f"eval/{second}/good")
    assert found["common"] == 4 and "fewer than 5" in found["sentence"]
    assert any("A has 12, B has 12" in note and "the 4 that all" in note for note in found["notes"])
    old = add_compared(store, "old", {"good": 0.7}, asked=False)
    found = view(comparisons, f"eval/{first}/good", f"eval/{old}/good")
    assert found["common"] == 12 and any("paired by the names" in note for note in found["notes"])


def test_speeds_of_different_machines_are_told_apart(store: Store, comparisons: Comparisons) -> None:
    first = add_compared(store, "first", {"good": 0.7})
    other = add_compared(store, "other", {"good": 0.7}, threads=64)
    found = view(comparisons, f"eval/{first}/good", f"eval/{other}/good")
    assert any("not held against each other" in note for note in found["notes"])
    assert {"name": "threads", "values": [2, 64]} in found["differing"]


def test_decode_runs_with_the_same_settings_are_one_side(store: Store, comparisons: Comparisons) -> None:
    ids = [add_run(store, prompt=f"question {n}", tree=tree, tokens=31 + n) for n in range(6) for tree in (None, "3x2")]
    sides = comparisons.sides_of(ids)["sides"]
    assert len(sides) == 2 and all(len(side.split(",")) == 6 for side in sides)
    found = view(comparisons, *sides)
    assert found["common"] == 6 and [one["name"] for one in found["differing"]] == ["tree"]
    assert all(point[5] == [True, True] for point in found["points"])
    with pytest.raises(HeadwayError, match="one setting of everything but the prompt"):
        comparisons.sides_of(ids[::2])
    with pytest.raises(HeadwayError, match="no finished run"):
        comparisons.sides_of([add_run(store, failed=True)])
    many = [add_run(store, drafter=f"drafter {n}") for n in range(7)]
    with pytest.raises(HeadwayError, match="7 different settings"):
        comparisons.sides_of(many)


def test_runs_and_evaluations_meet_in_what_was_asked(store: Store, comparisons: Comparisons) -> None:
    job = add_compared(store, "first", {"good": 0.7})
    for number in range(12):
        add_run(store, prompt=f"question {number}", tags=["night"])
    again = add_run(store, prompt="question 3", tags=["night"])
    found = view(comparisons, f"eval/{job}/good", "tag/night")
    assert found["common"] == 12 and any("decoded again once" in note for note in found["notes"])
    asked = next(point[0] for point in found["points"] if point[1] == "q3")
    one = comparisons.prompt(Wanted((f"eval/{job}/good", "tag/night")), asked)
    assert one["text"] == "question 3" and one["sides"][1]["run"] == again and one["sides"][0]["run"] is None
    assert one["sides"][0]["live"]["drafter"] == "good" and one["sides"][0]["counts"]["num_steps"] > 0
    with pytest.raises(HeadwayError, match="None of these runs has answered"):
        comparisons.prompt(Wanted((f"eval/{job}/good", "tag/night")), "nobody")


def test_a_running_evaluation_is_brought_up_to_date(store: Store, comparisons: Comparisons) -> None:
    job = add_compared(store, "first", {"good": 0.7, "poor": 0.3}, prompts=6)
    keys = f"eval/{job}/good", f"eval/{job}/poor"
    assert view(comparisons, *keys)["common"] == 6
    assert {side["name"] for one in comparisons.choices()["evaluations"] for side in one["sides"]} == {"good", "poor"}


def test_drift_is_shown_where_a_run_is_approximate(store: Store, comparisons: Comparisons) -> None:
    step = {
        "kind": "step", "num_accepted": 2, "tokens": [1, 2, 3], "path": [1, 2], "text": "ab",
        "tree": {"target_probs": [None, 0.75, 0.5]},
    }  # fmt: skip
    assert drift_of_steps([step, step]) == (1.5, 6)
    assert drift_of_steps([{**step, "tree": None}]) is None and drift_of_steps([]) is None
    assert spans_of_steps([{"kind": "prefill", "text": "x"}, step, {"kind": "plain", "tokens_per_s": 1}]) == [
        ["x", 0], ["ab", 2]
    ]  # fmt: skip
    first = add_compared(store, "first", {"good": 0.7})
    typical = add_compared(store, "typical", {"good": 0.7}, config={"rule": "typical", "prompts": []})
    found = view(comparisons, f"eval/{first}/good", f"eval/{typical}/good")
    drift = {line["name"]: line for line in found["figures"]}["drift"]  # at temperature 0 every rule is exact
    assert [one["value"] for one in drift["sides"]] == [0.0, 0.0]
    assert any("B accepts by the typical rule" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("sides", "sentence"),
    [
        (["eval/{job}/nobody"], "has no answers of “nobody” yet"),
        (["tag/unheard"], "No finished run has the tag “unheard”"),
        (["poem"], "names nothing that can be compared"),
        (["eval/x"], "names nothing that can be compared"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(
    store: Store, comparisons: Comparisons, sides: list[str], sentence: str
) -> None:
    job = add_compared(store, "first", {"good": 0.7}, prompts=5)
    with pytest.raises(HeadwayError, match=sentence):
        view(comparisons, f"eval/{job}/good", *[one.format(job=job) for one in sides])
    with pytest.raises(NotFoundError):
        view(comparisons, f"eval/{job}/good", "runs/nope")


def test_the_routes_answer_with_files_and_sentences(store: Store, dashboard: Callable[..., FastAPI]) -> None:
    job = add_compared(store, "first", {"good": 0.7, "</script>": 0.3})
    query = urlencode([("side", f"eval/{job}/good"), ("side", f"eval/{job}/</script>"), ("ref", "1")])
    client = TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1")
    shown = client.get(f"/headway/compare?{query}").json()
    assert shown["reference"] == 1 and shown["common"] == 12
    rows = list(csv.reader(io.StringIO(client.get(f"/headway/compare.csv?{query}").text)))
    assert rows[0] == list(COLUMNS) and {row[3] for row in rows[1:]} >= {"acceptance_length", "depth 1"}
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert json.loads(client.get(f"/headway/compare.json?{query}").text) == shown
    report = client.get(f"/headway/compare.html?{query}").text
    assert report.count("</script>") == 2 and "import " not in report.partition('type="module">')[2][:200]
    for wrong in ("ref=9", "ref=x", "t=warm", "batch=much"):
        answer = client.get(f"/headway/compare?{query.replace('ref=1', wrong)}")
        assert answer.status_code == 400 and answer.json()["error"].endswith(".")
    assert client.get("/headway/compare?side=a").status_code == 400
    assert client.get(f"/headway/compare.pdf?{query}").status_code == 400
    assert client.get("/headway/compare/choices").json()["evaluations"][0]["name"] == "first"
    assert (
        client.post("/headway/compare/sides", json={"ids": "x"}, headers={"origin": "http://127.0.0.1"}).status_code
        == 400
    )


def test_the_question_comes_from_the_file_while_it_still_asks_the_same(
    store: Store, comparisons: Comparisons, tmp_path: Path
) -> None:
    path = tmp_path / "poems.jsonl"
    rows = [{"question_id": f"q{n}", "turns": [f"question {n}"]} for n in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {"rule": "rejection", "prompts": [str(path)], "temperatures": [0.0]}
    job = add_compared(store, "first", {"good": 0.7, "poor": 0.3}, config=config)
    wanted = Wanted((f"eval/{job}/good", f"eval/{job}/poor"))
    asked = next(point[0] for point in comparisons.view(wanted)["points"] if point[1] == "q3")
    assert comparisons.prompt(wanted, asked)["text"] == "question 3"
    path.write_text(path.read_text().replace("question 3", "another question"))
    assert comparisons.prompt(wanted, asked)["text"] is None
