"""A store whose disk is full, whose file can only be read, or is locked by somebody else, for as long as a block lasts.
Works for root too: SQLite itself is told so, and says what it would say of a real disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import event

from storage import Store


@contextmanager
def full_disk(store: Store, room: int) -> Iterator[None]:
    """Only `room` more pages of 4096 bytes can be written."""
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    with _obeying(store, f"PRAGMA max_page_count={pages + room}"):
        yield


@contextmanager
def read_only(store: Store) -> Iterator[None]:
    """Nothing can be written."""
    with _obeying(store, "PRAGMA query_only=ON"):
        yield


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another process writes and does not end; give the store a short busy timeout."""
    with closing(sqlite3.connect(store.location, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _obeying(store: Store, pragma: str) -> Iterator[None]:
    """Every connection the store takes obeys `pragma`; the pool starts afresh before and after."""

    def obey(connection: Any, *_: Any) -> None:
        connection.execute(pragma)

    store._engine.dispose()
    event.listen(store._engine, "connect", obey)
    try:
        yield
    finally:
        event.remove(store._engine, "connect", obey)
        store._engine.dispose()
