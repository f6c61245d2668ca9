"""A store, settings and the counting kind for tests of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.jobs import as_text, carry_out, kinds
from backend.jobs.context import ConsoleContext
from backend.settings import Settings
from storage import JobRecord, Store, owner_token
from tests.jobs import light


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    settings.home.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as opened:
        yield opened


@pytest.fixture
def context(settings: Settings, tmp_path: Path) -> Callable[..., ConsoleContext]:
    """context(items so far, stopped): a job's context on one home and one folder."""

    def make(
        items: dict[str, dict[str, Any]] | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> ConsoleContext:
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        return ConsoleContext(settings, folder, quiet=True, stopped=stopped, parts=dict(items or {}))

    return make


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind `count` is known in this process."""
    for module in (as_text, carry_out, kinds):
        monkeypatch.setattr(module, "JOB_KINDS", light.with_count())


def queued(store: Store, **config: object) -> JobRecord:
    data = light.CountConfig(**config).model_dump(mode="json")  # type: ignore[arg-type]
    return store.create_job(kind="count", name="Count", config=data)


def leased(store: Store, **config: object) -> JobRecord:
    job = store.lease_job(owner_token(), job_id=queued(store, **config).id)
    assert job is not None
    return job


def wait_for(condition: Callable[[], bool], within_s: float = 300.0) -> None:
    """Looks until it is so; the limit only keeps a broken test from hanging."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)
