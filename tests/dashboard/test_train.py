"""The Train page without a browser: plans in words, which probe fits, what a fork changes, events that never raise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.data.answers import pack_answers
from backend.jobs.configs import TrainJobConfig
from backend.settings import Settings
from backend.training.planner import Phase, Plan, decides
from dashboard.access import AccessPolicy
from dashboard.components.plotly_js import plotly_path
from dashboard.jobs import Jobs
from dashboard.pages.train_handlers import TrainHandlers
from dashboard.presenters.schema_form import config_from
from dashboard.presenters.train import (
    answer_choices,
    duration,
    fitting_probe,
    fork_config,
    job_name,
    plan_view,
    train_fields,
)
from dashboard.services import Services
from storage import Store
from tests.training.test_planner import made_up, probed
from tests.ui.idle_engine import IdleEngine
from tests.ui.serving import built

PLAN = Plan(
    bytes_features=300_000_000, bytes_checkpoints=200_000_000, bytes_drafter=50_000_000, peak_memory_bytes=2 * 10**9,
    phases=(Phase("learn", 540.0, True), Phase("save", 60.0, False)), steps=1200, parameters=20_200_000,
    measured=False, notes=("Scaled.",),
)  # fmt: skip


def event(**data: Any) -> Any:
    return SimpleNamespace(**data)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    pack_answers(made_up(30), tmp_path / "answers.npz")
    with Store.open(":memory:") as store:
        yield Services(IdleEngine(), AccessPolicy.for_bind(), store, places=Settings(tmp_path, tmp_path))


@pytest.fixture
def handlers(services: Services) -> TrainHandlers:
    return TrainHandlers(services, Jobs(services), clock=lambda: 0.0)


def test_a_plan_in_words() -> None:
    view = plan_view(PLAN, free_bytes=10**12, memory_bytes=10**12)
    assert [figure["value"] for figure in view["figures"]] == ["10 min", "2 GB", "550 MB", "20.2 million"]
    assert view["badge"] == "partly measured" and view["notes"] == ["Scaled."]
    assert [(phase["text"], phase["share"]) for phase in view["phases"]] == [("9 min", 0.9), ("60 s", 0.1)]
    tight = plan_view(PLAN, free_bytes=10**8, memory_bytes=10**9)
    assert tight["notes"][:2] == ["Only 1 GB of memory are free now.", "Only 100 MB of disk are free."]


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (98, "98 s"), (720, "12 min"), (12_000, "3 h 20 min")])
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_probe_of_the_same_settings_goes_before_a_newer_one_of_the_target() -> None:
    same, other = TrainJobConfig(answers="a"), TrainJobConfig.model_validate(
        {"answers": "a", "training": {"batch_tokens": 64}}
    )  # fmt: skip
    results: list[Any] = [
        {"probe": probed(other).to_json()},
        None,
        {"probe": {"old": 1}},
        {"probe": probed(same).to_json()},
    ]
    assert fitting_probe(results, "small", decides(same)) == probed(same)
    assert fitting_probe(results[:1], "small", decides(same)) == probed(other)
    assert fitting_probe(results, "another", decides(same)) is None
    assert fitting_probe([results[0] | {"contended": True}], "small", decides(other)) is None


def test_a_fork_starts_from_the_job_and_writes_elsewhere() -> None:
    config = TrainJobConfig(answers="a", name="Mine", out="/somewhere", work="/work").model_dump(mode="json")
    fork = TrainJobConfig.model_validate(fork_config(config, "abc"))
    assert (fork.start_from, fork.name, fork.out, fork.work) == ("abc", "Mine (fork)", None, None)
    assert TrainJobConfig.model_validate(fork_config(config, "abc", 300)).start_from == "abc@300"
    assert job_name(config) == "Mine" and job_name({**config, "name": None}) == "medusa for smollm2-135m"


def test_every_setting_of_the_config_is_in_the_form() -> None:
    fields = train_fields(None, [], [])
    config, problems = config_from(fields, {"target": "t", "answers": "a"})
    assert problems == {}
    assert TrainJobConfig.model_validate(config) == TrainJobConfig(target="t", answers="a")
    assert {field.group for field in fields} == {"data", "drafter", "training", "output"}
    shown = {field.path.split(".")[0] for field in fields}
    assert shown == set(TrainJobConfig.model_fields)
    assert all(field.help for field in fields)


def test_answers_to_choose_from(tmp_path: Path) -> None:
    builtin = tmp_path / "builtin.npz"
    sets = [
        SimpleNamespace(name="Mine", num_rows=1200, path="/a/b.npz"),
        SimpleNamespace(name="x", num_rows=1, path=str(builtin)),
    ]
    assert answer_choices(sets, builtin) == [("Mine (1,200 rows)", "/a/b.npz"), ("x (1 rows)", str(builtin))]
    builtin.touch()
    assert [path for _, path in answer_choices(sets, builtin)] == [str(builtin), "/a/b.npz"]


def test_a_job_is_started_from_what_is_typed(handlers: TrainHandlers, services: Services, tmp_path: Path) -> None:
    typed = {"target": "tiny-llama", "answers": str(tmp_path / "answers.npz"), "training.batch_tokens": "64"}
    form, link, _ = handlers.act(event(typed=typed, action="start"))
    assert services.store is not None
    job = services.store.get_job(link["job"])
    assert job.config["training"]["batch_tokens"] == 64 and job.name == "medusa for tiny-llama"
    assert form["problems"] == {}
    _, _, text = handlers.act(event(typed=typed, action="yaml"))
    assert "batch_tokens: 64" in text["text"]


def test_mistakes_stand_beside_their_field(handlers: TrainHandlers, services: Services) -> None:
    typed = {"target": "tiny-llama", "answers": "", "training.epochs": "no"}
    form, _, _ = handlers.act(event(typed=typed, action="start"))
    assert set(form["problems"]) == {"answers", "training.epochs"}
    assert services.store is not None and services.store.list_jobs() == []
    edited, _ = handlers.edit(event(typed=typed, field="training.epochs"))
    assert set(edited["problems"]) == {"training.epochs"}  # what was not touched yet is not complained about


def test_a_plan_that_cannot_be_made_says_why(handlers: TrainHandlers) -> None:
    typed = {"target": "tiny-llama", "answers": "/nowhere/a.npz"}
    assert "There is no file" in handlers.edit(event(typed=typed, field="answers"))[1]["problem"]
    assert "There is no job" in handlers.fork(event(job="none"))[0]["problems"][""]
    assert handlers.text(event(job="none", form="yaml"))["text"].startswith("# ")


def test_the_plan_tells_what_the_draft_vocabulary_covers(handlers: TrainHandlers, tmp_path: Path) -> None:
    typed = {"target": "tiny-llama", "answers": str(tmp_path / "answers.npz"), "drafter.draft_vocab": "8"}
    figure = handlers.edit(event(typed=typed, field="drafter.draft_vocab"))[1]["figures"][-1]
    assert figure["label"] == "Text it can draft" and figure["value"].endswith(" %")
    assert figure["note"].startswith("so a chain of 4 reaches ")
    whole = handlers.edit(event(typed=typed | {"drafter.draft_vocab": "0"}, field="drafter.draft_vocab"))[1]
    assert len(whole["figures"]) == 4


@pytest.mark.parametrize("family", ["mtp", "peagle"])
def test_every_family_is_served_from_its_schema(handlers: TrainHandlers, tmp_path: Path, family: str) -> None:
    typed = {"target": "tiny-llama", "answers": str(tmp_path / "answers.npz"), "drafter.family": family}
    form, view = handlers.edit(event(typed=typed, field="drafter.family"))
    assert form["problems"] == {} and len(view["figures"]) == 5
    assert {"drafter.draft_depth", "drafter.loss"} <= {field["field"] for field in form["fields"]}


def test_measuring_queues_a_job_and_its_result_makes_the_plan_measured(
    handlers: TrainHandlers, services: Services, tmp_path: Path
) -> None:
    typed = {"target": "tiny-llama", "answers": str(tmp_path / "answers.npz"), "training.batch_tokens": "64"}
    _, view = handlers.measure(event(typed=typed))
    assert view["badge"] == "estimate" and services.store is not None
    job = services.store.lease_job("me", job_id=view["measuring"])
    assert job is not None and job.kind == "plan"
    made = TrainJobConfig.model_validate({k: v for k, v in job.config.items() if k != "seconds"})
    probe = probed(made, target="tiny-llama", hidden_size=64, vocab_size=260)
    services.store.end_job(job.id, job.attempt, "finished", result={"probe": probe.to_json()})
    assert handlers.measured(event(typed=typed, job=job.id))["badge"] == "measured here"


def test_the_chart_library_is_served_from_the_package_for_ever(services: Services) -> None:
    client = TestClient(built(services), base_url="http://127.0.0.1:7860")
    found = client.get(plotly_path())
    assert found.status_code == 200 and found.content[:200].find(b"plotly.js v3") > 0
    assert "immutable" in found.headers["cache-control"]
    assert client.get("/headway/plotly/0.0.0.min.js").status_code == 404
