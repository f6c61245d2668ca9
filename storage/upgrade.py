"""Create a database or bring it to the schema of this code, after a copy of an existing SQLite file.

Knows how to migrate, not what the tables mean. All revisions run in one transaction: it ends at the new
schema or nothing changed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, inspect, text

from storage.backup import copy_before
from storage.engine import (
    BUSY_TIMEOUT_S,
    check_folder,
    for_writing,
    location,
    make_engine,
    resolve_url,
    sqlite_file,
)
from storage.errors import StoreError, one_sentence
from storage.tables import Base

VERSION_TABLE = "headway_schema_version"  # not alembic's own name: other tools in the same database use that
_REVISIONS = Path(__file__).parent / "migrations" / "versions"
_ADVISORY_LOCK = 0x68656164  # any fixed number; keeps two processes from migrating one PostgreSQL database at once
_alembic_lock = threading.Lock()  # alembic's context is global to the process


def upgrade(
    url: URL,
    *,
    connection: Connection | None = None,
    revisions: Sequence[Path] = (_REVISIONS,),
    to: str = "head",
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> Path | None:
    """Create or upgrade the database at `url`; returns the path of the copy that was made first, if one was.

    connection: used instead of an own one where the database lives only in that connection (SQLite in memory).
    StoreError: the schema is newer than this code, tables of another program are in the way, or a revision failed.
    """
    with one_sentence(location(url)), _alembic_lock:
        if connection is not None:
            return _upgrade(connection, url, revisions, to)
        engine = for_writing(make_engine(url, busy_timeout_s=busy_timeout_s, for_migration=True))
        with engine.begin() as own:
            return _upgrade(own, url, revisions, to)


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """What an upgrade did: the schemas before (None: there was no database) and after, and the copy made first."""

    before: str | None
    after: str
    copy: Path | None


def upgrade_database(url_or_path: str | Path) -> Upgrade:
    """Create or upgrade the database at a path or URL, saying what was done; StoreError as for `upgrade`."""
    url = resolve_url(url_or_path)
    path = sqlite_file(url)
    if path is not None:
        check_folder(path)
    engine = make_engine(url, for_migration=True)
    with one_sentence(location(url)), engine.connect() as connection:
        before = current_schema(connection)
    copy = upgrade(url)
    with one_sentence(location(url)), engine.connect() as connection:
        after = current_schema(connection)
    return Upgrade(before=before, after=str(after), copy=copy)


def current_schema(connection: Connection) -> str | None:
    """The revision a database is at, None for one that holds no Headway tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()


def downgrade(url: URL, to: str) -> None:
    """Go back to an older revision, or to `base`: no tables. For tests and for going back to an older Headway."""
    with one_sentence(location(url)), _alembic_lock:
        engine = for_writing(make_engine(url, for_migration=True))
        with engine.begin() as connection:
            command.downgrade(_config(connection, (_REVISIONS,)), to)


def _upgrade(connection: Connection, url: URL, revisions: Sequence[Path], to: str) -> Path | None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    config = _config(connection, revisions)
    script = ScriptDirectory.from_config(config)
    current = current_schema(connection)
    known = [revision.revision for revision in script.walk_revisions()]
    target = known[0] if to == "head" else to
    if current == target:
        return None
    _refuse_foreign(connection, location(url), current, known)
    path = sqlite_file(url)
    copy = None
    if current is not None and path is not None:
        copy = copy_before(path, known[known.index(current) - 1])
    command.upgrade(config, target)
    if connection.dialect.name == "sqlite" and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
        raise StoreError(f"The database {location(url)} holds rows that refer to missing ones; it was left as it was.")
    return copy


def _refuse_foreign(connection: Connection, where: str, current: str | None, known: Sequence[str]) -> None:
    if current is not None and current not in known:
        raise StoreError(
            f"The database {where} was made by a newer Headway (schema {current}, this one knows up to {known[0]}); "
            "update Headway or choose another database."
        )
    if current is None:
        taken = sorted(set(inspect(connection).get_table_names()) & set(Base.metadata.tables))
        if taken:
            raise StoreError(
                f"The database {where} belongs to another program (it has a table {taken[0]!r} but is not Headway's); "
                "choose another database."
            )


def _config(connection: Connection, revisions: Sequence[Path]) -> Config:
    config = Config()
    # Percent signs in paths would be read as references by the configuration's parser.
    config.set_main_option("script_location", str(_REVISIONS.parent).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(str(path).replace("%", "%%") for path in revisions))
    config.attributes["connection"] = connection
    return config
