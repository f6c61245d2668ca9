"""Stores to test on: every database the store supports, each empty."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from storage.tables import Base
from tests.storage import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A scratch database on a PostgreSQL server; skips with the reason where there is none, see postgres.skip."""
    pytest.importorskip("psycopg", reason="needs the PostgreSQL driver: pip install 'psycopg[binary]'")
    given = os.environ.get(postgres.VARIABLE)
    if given:
        yield given
        return
    try:
        with postgres.own_server() as server:
            yield server.url
    except postgres.Unavailable as reason:
        postgres.skip(str(reason))


@pytest.fixture(params=["sqlite file", "sqlite memory", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    return _empty(request, tmp_path)


@pytest.fixture(params=["sqlite file", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database that several processes can open."""
    return _empty(request, tmp_path)


def _empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return postgres.emptied(request.getfixturevalue("postgres_url"))
    return ":memory:" if request.param == "sqlite memory" else str(tmp_path / "store.sqlite")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the schema and nothing else: copied faster than made."""
    path = tmp_path_factory.mktemp("template") / "store.sqlite"
    Store.open(path).close()
    return path


@pytest.fixture(params=["sqlite file", "sqlite memory", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, template: Path) -> Iterator[Store]:
    """An open, empty store of each kind."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
        postgres.cleared(url, set(Base.metadata.tables))
    elif request.param == "sqlite file":
        url = str(shutil.copy(template, tmp_path / "store.sqlite"))
    else:
        url = ":memory:"
    with Store.open(url) as opened:
        yield opened
