"""A dashboard over a replay engine, without a server. Knows no test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from dashboard.access import AccessPolicy
from dashboard.jobs import Jobs
from dashboard.services import Services
from storage import Store
from tests.ui.replay_engine import ReplayEngine
from tests.ui.serving import built


@pytest.fixture(scope="module")
def engine() -> Iterator[ReplayEngine]:
    made = ReplayEngine(steps_per_s=None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def dashboard(engine: ReplayEngine) -> Callable[..., FastAPI]:
    """dashboard(policy) gives the app."""

    def build(policy: AccessPolicy, **rest: Any) -> FastAPI:
        return built(Services(engine, policy, **rest))

    return build


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as made:
        yield made


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    engine = ReplayEngine(steps_per_s=None)
    yield Jobs(Services(engine, AccessPolicy.for_bind(), store))
    engine.close()
