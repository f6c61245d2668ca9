"""The front page's sentences: how far a version is, and the one thing to do next."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dashboard.access import AccessPolicy
from dashboard.build import pages
from dashboard.home import home
from dashboard.jobs import Jobs
from dashboard.presenters.home import NEXT, STAGES, WATCH, Known, next_action, version_rows
from dashboard.runs import Runs
from dashboard.services import Services
from storage import Store, VersionIdentity
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine

PAGES = ["/", "/live", "/data", "/train", "/evaluate", "/runs"]
CONFIGS = {"evaluate": {"drafters": ["heads"], "temperatures": [0.0]}}


@pytest.fixture
def services(engine: ReplayEngine, store: Store) -> Services:
    return Services(engine, AccessPolicy.for_bind(), store)


def front(services: Services, pages: list[str] = PAGES) -> dict[str, object]:
    return home(services, Jobs(services), pages)


def test_the_first_visit_is_told_from_all_others(services: Services, store: Store) -> None:
    first = front(services)
    assert first["first"] and first["versions"] == [] and first["runs"] == []
    add_run(store)
    second = front(services)
    assert not second["first"] and second["num_runs"] == 1


def test_a_version_walks_from_data_to_checked_and_the_next_step_follows(services: Services, store: Store) -> None:
    identity = VersionIdentity(weights_id="w", tokenizer_id="t", template_id="c")
    version = store.register_version(identity, label="mine", source="/m", model_type="llama", num_parameters=9)
    seen = []
    for kind, page in (("distill", "/data"), ("train", "/train"), ("evaluate", "/evaluate"), (None, "/live")):
        found = front(services)
        done = {stage["name"] for stage in found["versions"][0]["stages"] if stage["done"]}  # type: ignore[index]
        seen.append((done, found["next"]["href"].partition("?")[0]))  # type: ignore[index]
        assert seen[-1][1] == page
        if kind:
            job = store.create_job(kind=kind, name=kind, config=CONFIGS.get(kind, {}))
            leased = store.lease_job("host:1:x", job_id=job.id)
            assert leased is not None
            store.link_job(job.id, leased.attempt, version_id=version.id)
            running = front(services)["next"]
            assert running["label"] == "Watch it" and running["href"] == f"{page}?job={job.id}"  # type: ignore[index]
            store.end_job(job.id, leased.attempt, "finished")
    assert [done for done, _ in seen] == [set(), {"data"}, {"data", "trained"}, {"data", "trained", "checked"}]


def test_drafters_and_their_lineage_prove_stages_without_a_job() -> None:
    version = SimpleNamespace(id="v", label="mine", source="", num_parameters=1)
    heads = SimpleNamespace(version_id="v", name="heads", lineage={"answers": "a.npz"})
    other = SimpleNamespace(version_id="w", name="other", lineage=None)
    stages = version_rows(Known(versions=[version], drafters=[heads, other]))[0]["stages"]
    assert {stage["name"]: stage["note"] for stage in stages if stage["done"]} == {"data": "a.npz", "trained": "heads"}


def test_only_pages_that_exist_are_offered() -> None:
    version = SimpleNamespace(id="v", label="mine", source="", num_parameters=1)
    assert set(NEXT) == set(STAGES)
    assert next_action(Known(versions=[version]), ["/", "/train"])["href"] == "/train?version=v"
    assert next_action(Known(versions=[version]), ["/"])["href"] == "/live"


def proof(kind: str, config: dict[str, object] | None = None, result: dict[str, object] | None = None) -> str:
    """What the one stage says that a finished job of this kind proves; empty where it proves none."""
    job = SimpleNamespace(kind=kind, name="job", version_id="v", config=config or {}, result=result)
    version = SimpleNamespace(id="v", label="mine", source="", num_parameters=1)
    stages = version_rows(Known(versions=[version], finished_jobs=[job]))[0]["stages"]
    return ", ".join(f"{stage['name']}: {stage['note']}" for stage in stages if stage["done"])


def test_a_stage_is_proved_by_what_really_makes_it() -> None:
    assert proof("calibrate") == proof("cost") == ""  # what a tree is searched with is no tree
    assert proof("tune-tree", result={"num_nodes": 7, "drafter": "/x/heads"}) == "tuned: 7 nodes for heads"
    assert proof("tune-tree", result={"num_nodes": 0}) == "tuned: no tree pays for job"
    assert proof("sweep", {"space": {"temperature": "0, 1"}}) == "" and proof("sweep", {"space": {"tree": "2x1"}}) != ""
    heads, hot = {"drafters": ["heads"], "temperatures": [0.0, 1.0]}, {"drafters": ["heads"], "temperatures": [1.0]}
    assert proof("evaluate", hot) == "" and proof("evaluate", heads | {"drafters": ["ngram", "draft:small"]}) == ""
    rows = [
        {"contender": "heads · 2x1", "num_paired": 9, "num_same": 8},
        {"contender": "heads", "num_paired": 9, "num_same": None},
        {"contender": "ngram", "num_paired": 9, "num_same": 0},
    ]
    assert proof("evaluate", heads, {"rows": rows}) == "checked: job: 8 of 9 answers the same"
    audit = {"drafter": "heads"}
    assert proof("audit", audit, {"verdict": "exact"}) == "checked: job: exact"
    assert proof("audit", audit, {"verdict": "deviates"}) == ""
    assert proof("audit", {"drafter": "ngram"}, {"verdict": "exact"}) == ""
    assert proof("export", result={"check": None}) == "exported: job"
    assert proof("export", result={"check": {"findings": [{}]}}) == "exported: job (1 finding)"


def test_every_next_action_leads_to_a_page_that_exists(services: Services) -> None:
    addresses = {path for _, path, _ in pages(Runs(services))}
    assert {page for _, page, _ in NEXT.values()} | set(WATCH.values()) <= addresses
