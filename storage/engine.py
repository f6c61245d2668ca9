"""Connections to the database: SQLite by default, any SQLAlchemy URL by option.

Knows no tables. SQLite runs with a write-ahead log (readers never wait for the writer), `synchronous=NORMAL` (a killed
process loses nothing that was committed, a power cut at most the last transactions, never the file), foreign keys on,
and a busy timeout.
"""

from __future__ import annotations

import errno
import math
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url
from sqlalchemy.pool import NullPool, StaticPool

from storage import patterns
from storage.errors import StoreError, from_file_system, one_sentence

BUSY_TIMEOUT_S = 30.0
_WRITE = "headway_write"


def resolve_url(url_or_path: str | Path) -> URL:
    """A SQLAlchemy URL from a URL or from the path of an SQLite file; `:memory:` is a database of this store alone."""
    text = str(url_or_path)
    if not text.strip():
        raise StoreError("The address of the database is empty; give a file path or a URL such as postgresql://….")
    if text == ":memory:":
        return URL.create("sqlite")
    if isinstance(url_or_path, Path) or "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        raise StoreError(
            "The address of the database is not a URL; write it as dialect://user:password@host/name."
        ) from error
    if url.get_backend_name() == "sqlite" and (url.query or (url.database or "").startswith("file:")):
        raise StoreError("SQLite URLs with options are not supported; give the plain path of the database file.")
    if url.get_backend_name() == "sqlite" and url.database in ("", ":memory:"):
        return URL.create("sqlite")
    return url


def sqlite_file(url: URL) -> Path | None:
    """The file behind a URL; None for SQLite in memory and for servers."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    return Path(url.database)


def sqlite_path(url_or_path: str | Path) -> Path | None:
    """The file of an SQLite database given by path or URL; None for SQLite in memory and for servers."""
    return sqlite_file(resolve_url(url_or_path))


def location(url: URL) -> str:
    """How messages name the database: its path or its URL without the password."""
    path = sqlite_file(url)
    return str(path) if path else url.render_as_string(hide_password=True)


def check_folder(path: Path) -> None:
    """Make the folder of a database file, and make sure that files can be written there; StoreError if not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise StoreError(f"{path} is a folder; give the path of a file in it.")
        # SQLite keeps its log beside the file, so the folder itself must be writable.
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(b"0")
            probe.flush()
        # Asked, not tried: opening and closing the file would drop the locks that another connection of this process
        # holds on it (POSIX locks belong to the process), and SQLite would then lose sight of other processes' changes.
        effective = os.access in os.supports_effective_ids
        if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=effective):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        named = str(path) if path.is_file() else f"The folder {path.parent}"
        raise from_file_system(error, named) from error


def make_engine(url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S, for_migration: bool = False) -> Engine:
    """An engine whose connections are set up as the module says.

    `for_migration`: no pool, and foreign keys off, because rebuilding a table in SQLite drops it, which would cascade.
    """
    if url.get_backend_name() == "sqlite":
        return _make_sqlite_engine(url, busy_timeout_s, for_migration)
    try:
        arguments = _server_arguments(url, busy_timeout_s)
        if for_migration:
            engine = create_engine(url, poolclass=NullPool, connect_args=arguments)
        else:
            engine = create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=20, connect_args=arguments)
    except (ImportError, exc.NoSuchModuleError) as error:
        raise StoreError(
            f"The driver for {location(url)} is not installed ({error}); install it, for PostgreSQL with: "
            "pip install 'psycopg[binary]'."
        ) from error
    except exc.ArgumentError as error:
        raise StoreError(f"The address {location(url)} cannot be used ({error}); check it.") from error
    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _wait_for_locks_at_most(busy_timeout_s))
    return engine


def _server_arguments(url: URL, busy_timeout_s: float) -> dict[str, Any]:
    """What makes the driver give up on a server that does not answer, unless the URL says otherwise."""
    if url.get_driver_name() not in ("psycopg", "psycopg2"):
        return {}
    patience = {
        "connect_timeout": max(2, math.ceil(busy_timeout_s)),  # s; libpq takes 1 for 2
        "tcp_user_timeout": math.ceil(1000 * busy_timeout_s),  # ms that sent data may stay unanswered
    }
    return {name: value for name, value in patience.items() if name not in url.query}


def _wait_for_locks_at_most(busy_timeout_s: float) -> Callable[[Any, Any], None]:
    def set_up(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {max(1, math.ceil(1000 * busy_timeout_s))}")
        connection.commit()

    return set_up


def _make_sqlite_engine(url: URL, busy_timeout_s: float, for_migration: bool) -> Engine:
    arguments: dict[str, Any] = {"timeout": busy_timeout_s, "isolation_level": None}
    in_memory = sqlite_file(url) is None
    if in_memory:
        engine = create_engine(url, poolclass=StaticPool, connect_args=arguments | {"check_same_thread": False})
    elif for_migration:
        engine = create_engine(url, poolclass=NullPool, connect_args=arguments)
    else:
        engine = create_engine(url, pool_size=5, max_overflow=20, connect_args=arguments)

    def set_up(connection: Any, _record: Any) -> None:
        if not in_memory:
            _set_file_modes(connection, busy_timeout_s)
        connection.create_function("headway_matches", -1, patterns.matches, deterministic=True)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA foreign_keys={'OFF' if for_migration else 'ON'}")

    event.listen(engine, "connect", set_up)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_file_modes(connection: Any, busy_timeout_s: float) -> None:
    """Set the modes that are kept in the file; a change does not heed the busy timeout, so it is tried again here."""
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            # Only before the first page is written, as it would write to the file at every connection. It lets pruned
            # traces give their space back to the disk.
            if connection.execute("PRAGMA page_count").fetchone() == (0,):
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later could be refused in the middle, without waiting, when another
    # process wrote in between. Taking the write lock at the start makes it wait its turn instead.
    writes = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def for_writing(engine: Engine) -> Engine:
    """The same engine and pool, with transactions that take the write lock at their start."""
    return engine.execution_options(**{_WRITE: True})


def give_back_space(engine: Engine) -> None:
    """Return the pages that deleted rows left in an SQLite file to the disk; other databases do so themselves.

    Raises nothing where the file is busy or its disk full: the pages stay free for new rows, the next call tries again.
    """
    if sqlite_file(engine.url) is None:
        return
    with suppress(sqlite3.OperationalError, exc.OperationalError), engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.executescript("PRAGMA incremental_vacuum")  # execute() would stop after one page
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def check_health(engine: Engine) -> None:
    """Connect once; StoreError if the database is damaged, foreign, locked or out of reach.

    An SQLite file of up to 64 MiB is checked page by page; damage in larger ones is noticed when a page is read.
    """
    where = location(engine.url)
    path = sqlite_file(engine.url)
    with one_sentence(where), engine.connect() as connection:
        if path is None or path.stat().st_size > 64 * 2**20:
            return
        answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if answer != "ok":
            raise StoreError(
                f"The database {where} is damaged ({str(answer).splitlines()[-1]}); move it away and put back a copy "
                f"(files named {where}.before-…) or start with a new one."
            )
