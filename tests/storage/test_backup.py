"""Copies of databases: whole, checked, never over something else, the last few kept."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import Store, StoreError, backup_database, upgrade_database
from storage.backup import copies, copy_before
from tests.storage.samples import new_run, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a run of 50 steps."""
    path = tmp_path / "home" / "runs.db"
    with Store.open(path) as store:
        store.append_steps(new_run(store, "kept", start=True), 0, steps(0, 50))
    return path


def _holds(copy: Path) -> list[str]:
    with Store.open(copy) as store:
        return [run.prompt_start for run in store.list_runs(order="oldest")]


def test_a_copy_of_a_database_in_use_holds_what_was_committed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "new folder" / "copy.db"
    with Store.open(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        new_run(store, "second")
        other.execute("BEGIN IMMEDIATE")  # another process is in the middle of a change
        other.execute("UPDATE decode_runs SET prompt = 'half done'")
        backup_database(path, copy)
        other.execute("ROLLBACK")
    assert [entry.name for entry in copy.parent.iterdir()] == ["copy.db"]
    assert _holds(copy) == ["kept", "second"]


def test_a_copy_never_replaces_a_file(path: Path, tmp_path: Path) -> None:
    taken = tmp_path / "letter.txt"
    taken.write_text("dear")
    for copy in (taken, path):
        with pytest.raises(StoreError, match="exists already and was left as it is"):
            backup_database(path, copy)
    assert taken.read_text() == "dear" and _holds(path) == ["kept"]


def test_what_cannot_be_copied_is_one_sentence(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no database .*nowhere\.db to copy"):
        backup_database(tmp_path / "nowhere.db", tmp_path / "copy.db")
    with pytest.raises(StoreError, match="pg_dump"):
        backup_database("postgresql://me:secret@host/name", tmp_path / "copy.db")
    with pytest.raises(StoreError, match="not a folder"):
        backup_database(path, path / "below" / "copy.db")
    with path.open("r+b") as handle:
        handle.seek(8192)
        handle.write(b"\xff" * (path.stat().st_size - 8192))
    with pytest.raises(StoreError, match="damaged"):
        backup_database(path, tmp_path / "copy.db")
    assert not list(tmp_path.rglob("*copy*"))


def test_a_full_disk_leaves_no_half_copy(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"disk that holds .* is full"):
            backup_database(path, tmp_path / "copy.db")
    assert not list(tmp_path.rglob("*copy*"))


def test_the_last_three_automatic_copies_are_kept(path: Path) -> None:
    bystander = path.with_name("runs.db.before-I-forget.txt")
    bystander.write_text("mine")
    made = [copy_before(path, revision) for revision in ("0002", "0003", "0003", "0004", "0002")]
    assert [copy.name for copy in made] == [
        "runs.db.before-0002",
        "runs.db.before-0003",
        "runs.db.before-0003.2",
        "runs.db.before-0004",
        "runs.db.before-0002",  # the first of that name was no longer among the last three
    ]
    assert set(copies(path)) == set(made[2:]) and bystander.exists()
    assert all(_holds(copy) == ["kept"] for copy in copies(path))


def test_an_upgrade_says_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    fixture = Path(__file__).parent / "fixtures" / "schema_0001.sql"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(fixture.read_bytes().decode("utf-8"))
    done = upgrade_database(path)
    assert (done.before, done.copy) == ("0001", path.with_name("runs.db.before-0002")) and done.after > "0001"
    again = upgrade_database(path)
    assert (again.before, again.after, again.copy) == (done.after, done.after, None)
    new = upgrade_database(tmp_path / "new.db")
    assert (new.before, new.after, new.copy) == (None, done.after, None)
