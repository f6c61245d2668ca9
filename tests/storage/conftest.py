"""Stores to test on: every database the store supports, each empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from storage import Store

POSTGRES = os.environ.get("HEADWAY_TEST_POSTGRES")
needs_postgres = pytest.mark.skipif(
    not POSTGRES, reason="set HEADWAY_TEST_POSTGRES to the URL of an empty scratch database to test on PostgreSQL"
)


def empty_postgres() -> str:
    """The URL of the scratch database, emptied of everything."""
    assert POSTGRES is not None
    engine = create_engine(POSTGRES, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return POSTGRES


@pytest.fixture(params=["sqlite file", "sqlite memory", pytest.param("postgresql", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if request.param == "sqlite file":
        return str(tmp_path / "store.sqlite")
    return ":memory:" if request.param == "sqlite memory" else empty_postgres()


@pytest.fixture(params=["sqlite file", pytest.param("postgresql", marks=needs_postgres)])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database that several processes can open."""
    return str(tmp_path / "store.sqlite") if request.param == "sqlite file" else empty_postgres()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An open, empty store of each kind."""
    with Store.open(url) as opened:
        yield opened
