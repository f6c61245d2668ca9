"""An engine on the tiny target with a store in a temporary folder: in this process, and behind the wire of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.engine import wire
from backend.engine.protocol import Engine
from backend.engine.remote import RemoteEngine
from backend.engine.server import EngineServer
from backend.engine.service import LocalEngine
from backend.settings import Settings
from storage import Store


class Fixed:
    """The whereabouts of an engine that never moves."""

    def __init__(self, address: wire.Address) -> None:
        self._address = address

    def address(self, wait_s: float) -> wire.Address:
        return self._address

    def why_gone(self) -> str:
        return "The engine's process ended."

    def state(self) -> str | None:
        return None

    def close(self) -> None:
        return None


@contextmanager
def behind_a_wire(engine: LocalEngine) -> Iterator[RemoteEngine]:
    """The same engine as another process would see it."""
    server = EngineServer(engine, wire.Door(b"a key for the test"))
    try:
        yield RemoteEngine(Fixed(server.address))
    finally:
        server.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", cache=tmp_path / "cache")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store.open(settings.database) as opened:
        yield opened


@pytest.fixture
def local_engine(settings: Settings, store: Store) -> Iterator[LocalEngine]:
    running = LocalEngine(settings, store)
    yield running
    running.close()


@pytest.fixture(params=["here", "behind a wire"])
def engine(request: pytest.FixtureRequest, local_engine: LocalEngine) -> Iterator[Engine]:
    """Every test that takes it runs with both; what they do must not differ."""
    if request.param == "here":
        yield local_engine
        return
    with behind_a_wire(local_engine) as remote:
        yield remote
