"""The Trees page without a browser: what can be chosen, what is searched, what its buttons start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from backend.errors import HeadwayError
from backend.jobs.tune_helper import TuneHelper
from dashboard.access import AccessPolicy
from dashboard.jobs import Jobs
from dashboard.pages.trees_form import TreesValues
from dashboard.pages.trees_handlers import TreesHandlers
from dashboard.services import DashboardSettings, Services
from dashboard.trees import Trees
from storage import Store
from tests.tuning.made_up import calibration
from tests.ui.replay_engine import ReplayEngine


@pytest.fixture
def services(store: Store, tmp_path: Path) -> Iterator[Services]:
    for name in ("demo", "heldout"):
        (tmp_path / f"{name}.jsonl").write_text('{"turns": ["Say a."]}\n')
    engine = ReplayEngine(steps_per_s=None)
    yield Services(engine, AccessPolicy.for_bind(), store, DashboardSettings(demo_prompts=tmp_path / "demo.jsonl"))
    engine.close()


def ended(store: Store, kind: str, items: dict[str, Any], status: str = "finished") -> str:
    config = {"target": "a/model", "drafter": "heads", "temperatures": [0.0, 0.7]}
    job = store.lease_job("host:1:x", job_id=store.create_job(kind=kind, name=kind, config=config).id)
    assert job is not None
    store.put_items(job.id, job.attempt, items)
    store.end_job(job.id, job.attempt, status, result={"positions": 1234, "rounds": 1})  # type: ignore[arg-type]
    return str(job.id)


def items_of() -> dict[str, Any]:
    made = calibration(6)
    setup = {"conditions": made.conditions, "shape": made.shape.to_json(), "ranks": 3, "parallel": True}
    return {"setup": setup} | {f"T0|{n}": walk.to_dict() for n, walk in enumerate(made.walks)}


class Remembering(TuneHelper):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []

    def view(self, key: str, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        return {"key": key}


def test_finished_jobs_can_be_chosen_and_are_searched(services: Services, store: Store) -> None:
    helper = Remembering()
    trees = Trees(Jobs(services), helper)
    assert trees.choices() == {"calibrations": [], "costs": [], "tuned": [], "running": 0}
    first, cost = ended(store, "calibrate", items_of()), ended(store, "cost", {"setup": {}})
    broken = ended(store, "cost", {}, "failed")
    found = trees.choices()
    assert [one["id"] for one in found["costs"]] == [cost] and found["running"] == 0
    assert found["calibrations"][0]["label"] == "heads on model"
    assert found["calibrations"][0]["note"] == "1,234 positions, T to 0.7"
    trees.view(first, cost, 0.0, "x")
    assert set(helper.asked[0]["calibration"]) == set(items_of()) and helper.asked[0]["category"] == "x"
    with pytest.raises(HeadwayError, match="is failed; it can be looked at when it is finished"):
        trees.view(first, broken, None, "")
    with pytest.raises(HeadwayError, match="measured something else"):
        trees.view(cost, None, None, "")


def test_the_search_is_a_process_of_its_own(store: Store, dashboard: Callable[..., FastAPI]) -> None:
    first = ended(store, "calibrate", items_of())
    empty = ended(store, "calibrate", {"setup": items_of()["setup"]})
    client = TestClient(dashboard(AccessPolicy.for_bind(), store=store), base_url="http://127.0.0.1:7860")
    assert len(client.get("/headway/trees").json()["calibrations"]) == 2
    shown = client.get(f"/headway/trees/view?calibration={first}").json()
    assert shown["batches"]["1"]["best"] > 0 and shown["cost"] is None
    refused = client.get(f"/headway/trees/view?calibration={empty}")
    assert refused.status_code == 400 and "is empty" in refused.json()["error"]
    assert client.get("/headway/trees/view?calibration=nobody").status_code == 404
    assert client.get(f"/headway/trees/view?calibration={first}&temperature=warm").status_code == 400


def test_what_evaluations_found_of_a_tree_is_told(services: Services, store: Store) -> None:
    first = ended(store, "calibrate", items_of())
    names = ("heads · [[0]]", "heads · 2x1", "ngram · [[0]]")
    same = {"set": "s", "batch": 1, "temperature": 0.0, "acceptance_length": 1.8, "speedup": 1.4, "num_prompts": 9}
    rows = [{"contender": name, **same} for name in names]
    for target in ("a/model", "another"):
        made = store.create_job(kind="evaluate", name="e", config={"target": target})
        job = store.lease_job("host:1:x", job_id=made.id)
        assert job is not None
        store.end_job(job.id, job.attempt, "finished", result={"rows": rows})
    (found,) = Trees(Jobs(services), Remembering()).view(first, None, None, "")["measured"]
    assert (found["tree"], found["length"], found["speedup"], found["prompts"]) == ("[[0]]", 1.8, 1.4, 9)


def test_a_tree_can_be_measured(services: Services, store: Store) -> None:
    handlers = TreesHandlers(services, Jobs(services))
    asked = {"model": "tiny-llama", "drafter": "ngram", "tree": "[[0],[0,0]]", "batch": 16, "temperature": 0.5}
    shown = handlers.measure(SimpleNamespace(**asked))  # type: ignore[arg-type]
    assert shown["error"] is None, shown
    config = store.get_job(shown["jobs"][0]).config
    assert config["trees"] == ["[[0],[0,0]]"] and config["batches"] == [16] and config["limit"] == 32
    refused = handlers.measure(SimpleNamespace(**asked | {"batch": 0}))  # type: ignore[arg-type]
    assert refused["jobs"] == [] and refused["error"] is not None


def test_buttons_start_jobs_or_say_why_not(services: Services, store: Store) -> None:
    handlers = TreesHandlers(services, Jobs(services))
    values = handlers.first()
    assert values.prompts.endswith("heldout.jsonl")
    shown = handlers.calibrate(*values.to_components())
    assert shown["error"] is None and store.get_job(shown["jobs"][0]).kind == "calibrate"
    both = handlers.begin(*values.to_components())
    assert [store.get_job(one).kind for one in both["jobs"]] == ["calibrate", "cost"] and both["at"] != shown["at"]
    for changed, sentence in (
        (TreesValues(prompts=""), "Type the path of a file"),
        (TreesValues(prompts="x", temperatures="warm"), "Temperatures are numbers"),
        (TreesValues(prompts="x", max_new_tokens=None), "Max new tokens"),
    ):
        refused = handlers.calibrate(*changed.to_components())
        assert refused["jobs"] == [] and refused["error"].startswith(sentence), refused["error"]
    count = len(store.list_jobs())
    assert handlers.begin(*TreesValues(prompts="x", batches="0").to_components())["error"] is not None
    assert len(store.list_jobs()) == count  # neither of the two was started


def test_the_best_tree_is_kept_by_a_job_and_all_three_jobs_are_commands_and_files(
    services: Services, store: Store
) -> None:
    handlers, jobs = TreesHandlers(services, Jobs(services)), Jobs(services)
    first = ended(store, "calibrate", items_of())
    asked = {"calibration": first, "cost": None, "batch": 4, "temperature": 0.0, "category": "", "form": "start"}
    shown = handlers.keep(SimpleNamespace(**asked))  # type: ignore[arg-type]
    assert shown["error"] is None, shown
    job = store.get_job(shown["jobs"][0])
    assert (job.kind, job.name, job.device) == ("tune-tree", "heads on model, 4 at once", "cpu")
    assert job.config["calibration"] == first and job.config["cost"] is None and job.config["batch"] == 4
    text = handlers.keep(SimpleNamespace(**asked | {"form": "command"}))["text"]  # type: ignore[arg-type]
    assert text == f"python app.py tune-tree --calibration {first} --batch 4 --temperature 0"
    assert f"calibration: {first}" in handlers.keep(SimpleNamespace(**asked | {"form": "yaml"}))["text"]  # type: ignore[arg-type]
    leased = store.lease_job("host:1:x", job_id=job.id)
    assert leased is not None
    store.end_job(job.id, leased.attempt, "finished", result={"num_nodes": 3, "speedup": 1.25, "drafter": "heads"})
    (kept,) = Trees(jobs, Remembering()).choices()["tuned"]
    assert (kept["id"], kept["calibration"]) == (job.id, first) and "3 nodes" in kept["note"] and "1.25" in kept["note"]
    values = handlers.first().to_components()
    assert handlers.text("calibrate", "command", *values)["text"].startswith("python app.py calibrate --prompts ")
    assert "seconds: 180.0" in handlers.text("cost", "yaml", *values)["text"]
    wrong = TreesValues(batches="many").to_components()
    assert handlers.text("cost", "yaml", *wrong)["text"].startswith("# Batches are numbers")


def test_a_form_set_to_the_cpu_starts_a_job_that_waits_for_no_other_device(services: Services, store: Store) -> None:
    handlers = TreesHandlers(services, Jobs(services))
    for device, waits_for in (("cpu", "cpu"), ("", "auto")):
        shown = handlers.calibrate(*replace(handlers.first(), device=device).to_components())
        job = store.get_job(shown["jobs"][0])
        assert job.device == waits_for and job.config["device"] == (device or None)
        store.request_job(job.id, "stop")
