"""What the Evaluate page says: labels, marks, notes, files, guesses of time, and the form in both directions."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.analysis.evaluation import MEAN, PLAIN, Row, table
from backend.errors import HeadwayError
from backend.jobs.evaluate_config import EvaluateJobConfig
from dashboard.access import AccessPolicy
from dashboard.jobs import Jobs
from dashboard.pages.evaluate_form import EvaluateValues, values_from
from dashboard.pages.evaluate_handlers import Handlers
from dashboard.pages.evaluate_tables import Tables
from dashboard.presenters.evaluation import (
    COLUMNS,
    Pace,
    contender_name,
    estimate,
    evaluation_csv,
    evaluation_view,
    marks,
)
from dashboard.services import DashboardSettings, Services
from storage import Store
from tests.dashboard.evaluations import CONFIG, add_evaluation, measured, report, setup
from tests.ui.replay_engine import ReplayEngine


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n{"turns": ["Say b."]}\n')
    return tmp_path / "demo.jsonl"


@pytest.fixture
def handlers(store: Store, prompts: Path, engine: ReplayEngine) -> Handlers:
    services = Services(engine, AccessPolicy.for_bind(), store, DashboardSettings(demo_prompts=prompts))
    jobs = Jobs(services)
    return Handlers(services, jobs, Tables(jobs))


def kinds(found: list[dict[str, str]]) -> list[str]:
    return [mark["kind"] for mark in found]


def test_groups_hold_means_first_then_sets_with_plain_decoding_on_top() -> None:
    shown = evaluation_view(setup(), table(measured()))
    assert [group["label"] for group in shown["groups"]] == ["T = 0 · one row at once", "T = 1 · one row at once"]
    rows = shown["groups"][0]["rows"]
    assert [(row["set"], row["label"]) for row in rows] == [
        (name, label) for name in (MEAN, "poems", "proofs") for label in ("plain decoding", "good heads", "idle heads")
    ]
    assert [domain["category"] for domain in rows[4]["domains"]] == ["even", "odd"] and rows[1]["domains"] == []
    assert shown["rule"][0] == "exact" and "smollm2-135m, version a10d8d3be579" in shown["conditions"]


def test_nothing_is_shown_before_anything_is_known() -> None:
    assert evaluation_view(None, []) == {"groups": [], "conditions": [], "notes": [], "rule": None}


def row_of(**changes: Any) -> Row:
    return replace(Row("good", "s", None, 0.0, 1, 9, num_paired=9, num_same=9), **changes)


@pytest.mark.parametrize(
    ("conditions", "row", "expected"),
    [
        (setup(), row_of(), []),
        (setup("typical"), row_of(temperature=0.7, num_same=None), ["approximate"]),
        (setup("typical"), row_of(), []),  # at temperature 0 every rule is greedy
        (setup("typical"), row_of(contender=PLAIN, temperature=0.7), []),
        (setup(good={"warnings": ["Trained for another version."]}), row_of(), ["mismatch"]),
        (setup(), row_of(contended=True, others_busy=0.9), ["contended"]),
        (setup(), row_of(others_busy=0.2), ["busy"]),
        (setup(), row_of(num_same=7), ["differs"]),
        (setup(), row_of(num_paired=3, num_same=3), ["few"]),
    ],
)
def test_every_doubt_is_marked(conditions: dict[str, Any], row: Row, expected: list[str]) -> None:
    found = marks(conditions, row)
    assert kinds(found) == expected and all(mark["why"].endswith(".") for mark in found)


def test_a_doubt_that_all_rows_share_is_said_once() -> None:
    rows = [replace(row, others_busy=0.4) for row in table(measured()) if row.temperature == 1]
    shown = evaluation_view(setup(), rows)
    assert shown["notes"] == [
        "Other programs used up to 40 % of the processors meanwhile: repeat this on an idle machine."
    ]
    assert all("busy" not in kinds(row["marks"]) for row in shown["groups"][0]["rows"])
    shown = evaluation_view(setup(), [*rows[1:], replace(rows[0], others_busy=0.0)])
    assert shown["notes"] == [] and "busy" in kinds(shown["groups"][0]["rows"][-1]["marks"])


def test_drafters_of_the_same_name_are_told_apart() -> None:
    alike = setup(good={"name": "heads"}, idle={"name": "heads", "tree": "chain-2"})
    assert contender_name(alike, "good") == "heads (good)"
    assert contender_name(alike, "idle") == "heads (idle) · chain-2"
    assert contender_name({}, "anything") == "anything"


def test_what_was_left_out_is_said() -> None:
    conditions = setup()
    conditions["skipped"] = ["x is left out."]
    conditions["sets"]["poems"] |= {"left_out": 2, "broken": 1}
    assert evaluation_view(conditions, [])["notes"] == [
        "x is left out.",
        "2 prompts of poems did not fit and were left out for everyone.",
        "1 row of poems could not be read.",
    ]


def test_csv_has_a_line_a_row() -> None:
    rows = table(measured())
    read = list(csv.DictReader(io.StringIO(evaluation_csv(rows))))
    assert len(read) == len(rows) and tuple(read[0]) == COLUMNS
    place = next(n for n, row in enumerate(rows) if row.contender == "good" and row.category is None)
    row, line = rows[place], read[place]
    assert float(line["speedup"]) == row.speedup and row.speedup_interval is not None
    assert float(line["speedup_low"]) == row.speedup_interval.low and line["category"] == ""
    assert line["accepted_per_depth"] == " ".join(map(str, row.accepted_per_depth))


def test_the_guess_of_time_follows_an_earlier_evaluation() -> None:
    config = {"batches": [1, 4], "max_new_tokens": 100}
    pace = Pace({1: 20.0, 4: 50.0}, tokens=80.0, max_new_tokens=100)
    assert "unknown until the first prompts are measured" in estimate(30, config, 4, None)
    # 60 answers one by one at 4 s, 60 in batches at 1.6 s
    assert estimate(30, config, 4, pace) == (
        "30 prompts in 4 configurations make 120 answers: about 6 min, going by the last evaluation of this target."
    )
    assert "about 11 min" in estimate(30, config | {"max_new_tokens": 200}, 4, pace)
    assert estimate(None, config, 4, pace).startswith("How long it takes is known once")


def test_a_form_and_its_config_are_the_same_thing() -> None:
    values = EvaluateValues(
        target="t", drafters=["builtin-medusa"], more_drafters=" a/heads \n\ndraft:tiny", sets=["/p/own.jsonl"],
        more_files="/q/more.jsonl", limit=None, temperatures="0, 0.3,1", batches="1; 4", trees="chain-4\n3x2",
        name=" n ",
    )  # fmt: skip
    config = EvaluateJobConfig.model_validate(values.to_config())
    assert config.drafters == ("builtin-medusa", "a/heads", "draft:tiny") and config.limit is None
    assert (config.temperatures, config.batches, config.trees) == ((0, 0.3, 1), (1, 4), ("chain-4", "3x2"))
    assert config.num_configurations == (1 + 3 * 2) * 3 * 2
    again = values_from(config.model_dump(mode="json"), ["builtin-medusa"], ["/p/own.jsonl"])
    assert again.to_config() == values.to_config()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"drafters": []}, "Choose at least one drafter"),
        ({"sets": []}, "Choose at least one prompt set"),
        ({"temperatures": "0, warm"}, "Temperatures are numbers with commas"),
        ({"batches": ""}, "Batches"),
        ({"max_new_tokens": None}, "Max new tokens"),
    ],
)
def test_a_form_that_is_not_right_is_one_sentence(handlers: Handlers, changes: dict[str, Any], sentence: str) -> None:
    values = replace(handlers.first(), **changes)
    note = handlers.note(*values.to_components())
    assert note["problem"] and note["text"].startswith(sentence)
    started = handlers.start(*values.to_components())
    assert started["job"] is None and started["error"] == note["text"]
    assert handlers.command(*values.to_components())["text"] == f"# {note['text']}"


def test_the_form_starts_a_job_and_says_the_same_as_a_command(handlers: Handlers, store: Store, prompts: Path) -> None:
    values = handlers.first().to_components()
    note = handlers.note(*values)
    assert note["text"].startswith("2 prompts in 4 configurations make 8 answers.") and not note["problem"]
    first, second = handlers.start(*values), handlers.quick()
    job = store.get_job(first["job"])
    assert (job.kind, job.status, job.name) == ("evaluate", "queued", "heldout: builtin-medusa")
    assert store.get_job(second["job"]).config["prompts"] == [str(prompts.with_name("heldout.jsonl")), str(prompts)]
    assert second["at"] > first["at"]
    text = handlers.command(*values)["text"]
    assert text.startswith("python app.py evaluate") and "heldout.jsonl" in text and "--temperatures 0,1" in text
    assert "prompts:" in handlers.yaml(*values)["text"]


def test_prompt_sets_of_the_store_are_offered_once(handlers: Handlers, store: Store, prompts: Path) -> None:
    for name, path in (("mine", "/data/mine.jsonl"), ("the demo", str(prompts))):
        store.register_dataset(kind="prompts", name=name, path=path, content_hash=name, num_rows=1200, num_broken=0,
                               details={})  # fmt: skip
    offered = handlers.sets()
    assert [label for label, _ in offered] == ["Held-out prompts (2)", "Demo prompts (2)", "mine (1,200)"]


def test_tables_take_only_what_is_new(handlers: Handlers, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, found = handlers._jobs, measured()
    tables, job = Tables(jobs), add_evaluation(store)
    asked: list[int] = []
    read = jobs.items

    def items(job_id: str, after_seq: int = 0) -> Any:
        asked.append(after_seq)
        return read(job_id, after_seq)

    monkeypatch.setattr(jobs, "items", items)
    assert tables.view(job.id)["groups"] == []
    report(store, job, found[:30])
    assert tables.look(job.id)[1] == table(found[:30])
    report(store, job, found[30:], first=30)
    assert tables.look(job.id)[1] == table(found) and asked[0] == 0 and asked == sorted(set(asked))
    pace = tables.pace("smollm2-135m")
    assert pace is not None and set(pace.tokens_per_s) == {1} and tables.pace("another") is None
    other = store.create_job(kind="train", name="t", config={})
    with pytest.raises(HeadwayError, match="no evaluation"):
        tables.look(other.id)


def test_routes_give_the_table_and_files(store: Store, dashboard: Callable[..., FastAPI], prompts: Path) -> None:
    job = add_evaluation(store)
    report(store, job, measured())
    client = TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")
    shown = client.get(f"/headway/evaluations/{job.id}").json()
    assert shown["job"]["name"] == job.name and shown["sizes"] == {"poems": 9, "proofs": 9, MEAN: 18}
    assert len(shown["groups"]) == 2
    text = client.get(f"/headway/evaluations/{job.id}.csv")
    assert text.headers["content-disposition"].endswith('.csv"') and text.text.startswith("contender,set")
    taken = client.get(f"/headway/evaluations/{job.id}.json").json()
    assert taken["setup"]["config"] == CONFIG.model_dump(mode="json") and len(taken["rows"]) == len(table(measured()))
    assert client.get("/headway/evaluations/nobody").status_code == 404
    assert client.get(f"/headway/evaluations/{job.id}.exe").status_code == 400
