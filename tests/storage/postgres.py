"""A PostgreSQL server for the tests: one they are pointed to, or one of their own in a temporary folder.

HEADWAY_TEST_DATABASE_URL names an empty scratch database. Without it a server is started from installed binaries, on a
Unix socket only. Knows nothing of the store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import URL, create_engine, inspect, text
from sqlalchemy.pool import NullPool

VARIABLE = "HEADWAY_TEST_DATABASE_URL"
_SETTINGS = ["listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB"]


class Unavailable(Exception):
    """Why there is no server."""


def skip(reason: str) -> NoReturn:
    """Skips the test for this reason, or fails it where CI is set: there the server is installed."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class PostgresServer:
    """A server in a folder of its own; `stop` and `start` do what an administrator would."""

    def __init__(self, binaries: Path, folder: Path, user: str | None) -> None:
        self._binaries, self._folder, self._user = binaries, folder, user

    @property
    def url(self) -> str:
        query = {"host": str(self._folder)}
        return URL.create("postgresql+psycopg", "headway", database="postgres", query=query).render_as_string()

    def create(self) -> None:
        self._run("initdb", "--no-sync", "--auth=trust", "--username=headway", "--encoding=UTF8", "--locale=C")

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in [*_SETTINGS, f"unix_socket_directories={self._folder}"])
        self._run("pg_ctl", "--wait", f"--log={self._folder / 'log'}", f"--options={options}", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "--wait", "--mode=fast", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = [str(self._binaries / program), f"--pgdata={self._folder / 'data'}", *arguments]
        # Not captured through a pipe: the server would keep it open.
        with (self._folder / "output").open("a+") as output:
            status = subprocess.call(
                command, stdout=output, stderr=output, cwd=self._folder, env=environment, user=self._user, timeout=60
            )
        if status != 0:
            raise Unavailable(f"{program} failed: {(self._folder / 'output').read_text()[-500:]}")


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A running server that is gone afterwards; Unavailable where none can be started."""
    if os.name == "nt":
        raise Unavailable(f"set {VARIABLE} to test on PostgreSQL here")
    binaries = _binaries()
    user = _unprivileged_user() if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="headway-postgres-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = PostgresServer(binaries, folder, user)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def emptied(url: str) -> str:
    """The same URL, after everything in its database was dropped."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("SET client_min_messages = warning"))
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return url


def cleared(url: str, tables: set[str]) -> None:
    """Empty these tables where they are all there and no others; else drop everything."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        there = set(inspect(connection).get_table_names())
        if there >= tables and len(there) == len(tables) + 1:  # and the one that holds the schema's number
            connection.execute(text(f"TRUNCATE {', '.join(sorted(tables))}"))
            return
    emptied(url)


def _binaries() -> Path:
    places = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if all((place / program).exists() for program in ("initdb", "pg_ctl", "postgres")):
            return place
    raise Unavailable(f"no PostgreSQL here: install it (apt-get install postgresql) or set {VARIABLE}")


def _unprivileged_user() -> str:
    """PostgreSQL refuses to run as root."""
    import pwd  # not there on Windows

    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is no other user here")
