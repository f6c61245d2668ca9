"""The front page's sentences: how far a version is, and the one thing to do next."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from dashboard.access import AccessPolicy
from dashboard.home import home
from dashboard.jobs import Jobs
from dashboard.presenters.home import NEXT, STAGES, Known, next_action, version_rows
from dashboard.services import Services
from storage import Store, VersionIdentity
from tests.dashboard.stored_runs import add_run
from tests.ui.replay_engine import ReplayEngine

PAGES = ["/", "/live", "/data", "/train", "/evaluate", "/runs"]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


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
            job = store.create_job(kind=kind, name=kind, config={})
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
