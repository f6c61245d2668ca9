"""An engine on the tiny target with a store in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.engine.service import LocalEngine
from backend.settings import Settings
from storage import Store


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store.open(settings.database) as opened:
        yield opened


@pytest.fixture
def engine(settings: Settings, store: Store) -> Iterator[LocalEngine]:
    running = LocalEngine(settings, store)
    yield running
    running.close()
