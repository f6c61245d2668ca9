"""Copies of an SQLite database, also of one in use: made with SQLite's own backup, checked, and never seen half done.

Knows files, no tables. A database on a server is backed up with the server's own tools.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from storage.artifacts import sync_folder
from storage.engine import location, resolve_url, sqlite_file
from storage.errors import StoreError, one_sentence

KEPT_COPIES = 3


def backup_database(url_or_path: str | Path, copy: Path) -> None:
    """Copy the SQLite database at a path or URL, without opening it as a store: it may be of any schema.

    StoreError: it is no SQLite file; and see `copy_database`.
    """
    url = resolve_url(url_or_path)
    path = sqlite_file(url)
    if path is None:
        raise StoreError(f"{location(url)} is not a file of this machine; copy it with the server's own tool: pg_dump.")
    copy_database(path, copy)


def copy_database(source: Path, copy: Path) -> None:
    """Write a copy that holds what was committed when it was made, checked page by page.

    StoreError: the copy exists already, the source is missing or damaged, the disk is full.
    """
    if copy.exists():
        raise StoreError(f"{copy} exists already and was left as it is; choose another path or move it away.")
    if not source.is_file():
        raise StoreError(f"There is no database {source} to copy; check the path.")
    partial = copy.with_name(f".{copy.name}.{os.getpid()}.partial")
    with one_sentence(str(copy)):
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, partial)
            with partial.open("rb+") as written:
                os.fsync(written.fileno())
            # A hard link, unlike a rename, never replaces a file that another process made meanwhile.
            _put_in_place(partial, copy)
            sync_folder(copy.parent)
        finally:
            partial.unlink(missing_ok=True)


def _copy(source: Path, partial: Path) -> None:
    with closing(sqlite3.connect(source)) as reader, closing(sqlite3.connect(partial)) as writer:
        reader.backup(writer)
        # The copy must be one file: the log mode it inherits would leave two more beside it when opened.
        writer.execute("PRAGMA journal_mode=DELETE")
        answer = writer.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if answer != "ok":
        raise StoreError(
            f"The database {source} is damaged ({str(answer).splitlines()[-1]}), so no copy was made; put back an "
            "earlier copy or start with a new database."
        )


def _put_in_place(partial: Path, copy: Path) -> None:
    try:
        os.link(partial, copy)
    except FileExistsError as error:
        raise StoreError(f"{copy} exists already and was left as it is; choose another path.") from error
    except OSError:  # a file system without hard links
        os.replace(partial, copy)


def copy_before(path: Path, revision: str) -> Path:
    """Copy a database to `<name>.before-<revision>` beside it before that revision changes it.

    A copy of that name from an earlier try stays; the new one gets a number. The last three copies are kept.
    """
    copy = path.with_name(f"{path.name}.before-{revision}")
    number = 2
    while copy.exists():
        copy = path.with_name(f"{path.name}.before-{revision}.{number}")
        number += 1
    copy_database(path, copy)
    for old in copies(path)[:-KEPT_COPIES]:
        old.unlink(missing_ok=True)
    return copy


def copies(path: Path) -> list[Path]:
    """The automatic copies of a database, the oldest first."""
    name = re.compile(re.escape(path.name) + r"\.before-\w+(\.\d+)?")
    found = [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)] if path.parent.is_dir() else []
    return sorted(found, key=lambda entry: (entry.stat().st_mtime_ns, entry.name))
