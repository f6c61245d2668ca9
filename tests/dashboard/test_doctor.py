"""The Doctor page without a browser: what its button starts, what is wrong beside a field, what is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.analysis.doctor import Finding
from backend.errors import HeadwayError
from dashboard.diagnosing import view, written
from dashboard.jobs import Jobs
from dashboard.pages.doctor_handlers import DoctorHandlers
from dashboard.presenters.doctor import doctor_name
from storage import Store

CONFIG = {"target": "t", "drafter": "/heads/mine", "tree": None, "temperature": 0.0, "raw": True}


@pytest.fixture
def handlers(jobs: Jobs) -> DoctorHandlers:
    return DoctorHandlers(jobs._services, jobs)


def pressed(handlers: DoctorHandlers, action: str, typed: dict[str, Any]) -> tuple[Any, Any, Any]:
    return handlers.act(SimpleNamespace(action=action, typed=typed))  # type: ignore[arg-type]


def test_the_form_starts_a_diagnosis_and_says_it_as_command(handlers: DoctorHandlers, store: Store) -> None:
    form, shown = handlers.load(SimpleNamespace(query_params={"tree": "3x2x1"}))  # type: ignore[arg-type]
    assert shown["job"] is None and form["typed"]["tree"] == "3x2x1"
    typed = form["typed"] | {"raw": True, "temperature": "0.7"}
    text = pressed(handlers, "command", typed)[2]["text"]
    assert text.endswith("doctor --tree 3x2x1 --raw --temperature 0.7")
    _, shown, _ = pressed(handlers, "start", typed)
    (job,) = store.list_jobs(kinds=["doctor"])
    assert shown["job"] == job.id and job.name == doctor_name(job.config) == "builtin-medusa, T 0.7, raw"
    wrong, *_ = pressed(handlers, "start", typed | {"drafter": "none"})
    assert "nothing can be wrong" in wrong["problems"][""]


def test_while_it_runs_it_says_what_was_tried(jobs: Jobs, store: Store) -> None:
    created = store.create_job(kind="doctor", name="d", config=CONFIG)
    job = store.lease_job("host:1:x", job_id=created.id)
    assert job is not None
    store.put_items(job.id, job.attempt, {"answers, T = 0|0": {"ids": [1]}, "trial|layers +1": {"tokens": []}})
    told = view(jobs, job.id)
    assert told["verdict"] is None and told["so_far"] == {"answers": 1, "trials": ["layers +1"]}
    assert "T 0, raw prompts" in told["conditions"]
    with pytest.raises(HeadwayError, match="not over"):
        written(jobs, job.id)
    other = store.create_job(kind="cost", name="c", config={})
    with pytest.raises(HeadwayError, match="no diagnosis"):
        view(jobs, other.id)


def test_causes_are_told_with_their_gain_and_evidence(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    findings = [
        Finding("wrong-layers", "Other layers.", "measured", {"fits": [1, 2], "now": 1.5}, 0.8, 0.6, 1.0, "undone"),
        Finding("too-little-data", "Little.", "estimated", {}, None, 0.0, 0.5, "bound"),
        Finding("tree-too-deep", "Deep.", "speed", {"speed_gain": 0.25}),
        Finding("dtype-differs", "Half.", "hint"),
    ]
    file = tmp_path / "diagnosis.json"
    file.write_text(json.dumps({"format": 1}))
    untested = [{"kind": "vocab-map", "reason": "no rows"}, {"kind": "states-size", "reason": "no rows"}]
    result = {"file": str(file), "verdict": "faults", "sentence": "4 causes", "untested": untested,
              "findings": [one.to_dict() | {"command": "python app.py train"} for one in findings]}  # fmt: skip
    created = store.create_job(kind="doctor", name="d", config=CONFIG)
    job = store.lease_job("host:1:x", job_id=created.id)
    assert job is not None
    store.end_job(job.id, job.attempt, "finished", result=result)
    told = view(jobs, job.id)
    first, second, third, fourth = told["causes"]
    assert first["gain"] == {"text": "+0.80 tokens a step", "middle": 0.8, "low": 0.6, "high": 1.0}
    assert first["evidence"] == [["fits", "1, 2"], ["now", "1.5"]] and first["how"] == "measured by undoing it"
    assert second["gain"]["text"] == "up to +0.50 tokens a step" and third["gain"]["text"] == "25 % faster"
    assert fourth["gain"]["text"] == "gain not known" and fourth["command"] == "python app.py train"
    assert told["untested"] == [{"reason": "no rows", "kinds": ["vocab-map", "states-size"]}]
    assert written(jobs, job.id).body == file.read_bytes()
