"""What all parts of the store share: opening a database, one transaction a call, one sentence an error.

Knows no tables and no records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Engine, exc
from sqlalchemy.orm import Session

from storage.engine import (
    BUSY_TIMEOUT_S,
    check_folder,
    check_health,
    for_writing,
    location,
    make_engine,
    resolve_url,
    sqlite_file,
)
from storage.errors import one_sentence
from storage.tables import Base
from storage.upgrade import upgrade


def utc_now() -> datetime:
    return datetime.now(UTC)


class StoreBase:
    """An open database; the parts of the store add their methods. See `store` for the contract."""

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = utc_now) -> None:
        """A store on a database that already has the schema of this code; `open` makes sure of that."""
        self.location = location(engine.url)
        self._engine = engine
        self._writer = for_writing(engine)
        self._clock = clock
        in_memory = engine.url.get_backend_name() == "sqlite" and sqlite_file(engine.url) is None
        # In memory there is one connection for all threads, so they take turns.
        self._turn = threading.RLock() if in_memory else nullcontext()

    @classmethod
    def open(
        cls,
        url_or_path: str | Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        clock: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Open, create or upgrade the database at a path, a SQLAlchemy URL or `:memory:`.

        StoreError: folder or file not writable, damaged, another program's, of a newer schema, locked, out of reach.
        """
        url = resolve_url(url_or_path)
        path = sqlite_file(url)
        if path is not None:
            check_folder(path)
        engine = make_engine(url, busy_timeout_s=busy_timeout_s)
        try:
            check_health(engine)
            if path is None and url.get_backend_name() == "sqlite":
                with for_writing(engine).begin() as connection:
                    upgrade(url, connection=connection)
            else:
                upgrade(url, busy_timeout_s=busy_timeout_s)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, clock=clock)

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with self._turn, one_sentence(self.location), Session(self._engine) as session:
            yield session

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with self._turn, one_sentence(self.location), Session(self._writer) as session, session.begin():
            yield session


def insert_unless_there(session: Session, row: Base) -> None:
    """Add a row whose id is a hash of what it describes, unless it is there already."""
    # Where writers do not exclude each other (PostgreSQL), another process may have inserted the same row meanwhile.
    try:
        with session.begin_nested():
            session.add(row)
    except exc.IntegrityError:
        return
