"""What goes wrong with databases gives one sentence that names the path, and nothing half written."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from storage import NotFoundError, Store, StoreError, UnavailableError
from storage.engine import make_engine, resolve_url
from storage.errors import from_file_system
from tests.storage.samples import RESULT, new_run, register, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a database may be made."""
    return tmp_path / "store.sqlite"


def _is_one_sentence(error: BaseException) -> bool:
    return re.fullmatch(r"[^\n]+\.", str(error)) is not None


@contextmanager
def _without_root() -> Iterator[None]:
    """As a user whom permissions bind: root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can reach, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_a_read_only_folder_is_refused_at_opening(open_folder: Path) -> None:
    path = open_folder / "store.sqlite"
    Store.open(path).close()
    path.chmod(0o666)
    open_folder.chmod(0o555)
    with _without_root(), pytest.raises(StoreError, match="cannot be written; make it") as caught:
        Store.open(path)
    assert str(open_folder) in str(caught.value) and _is_one_sentence(caught.value)
    assert [entry.name for entry in open_folder.iterdir()] == ["store.sqlite"]
    open_folder.chmod(0o755)


def test_a_read_only_file_is_refused_at_opening(open_folder: Path) -> None:
    path = open_folder / "store.sqlite"
    Store.open(path).close()
    path.chmod(0o444)
    open_folder.chmod(0o777)
    with _without_root(), pytest.raises(StoreError, match=r"store\.sqlite cannot be written; make it"):
        Store.open(path)


def test_a_folder_that_is_made_read_only_later_is_reported(open_folder: Path) -> None:
    path = open_folder / "store.sqlite"
    open_folder.chmod(0o777)
    with _without_root():
        store = Store.open(path)
        run_id = new_run(store)
        store.close()
    open_folder.chmod(0o555)
    with _without_root(), pytest.raises(StoreError, match=r"store\.sqlite cannot be (opened|written)"):
        new_run(store)
    open_folder.chmod(0o755)
    with store:
        assert [run.id for run in store.list_runs()] == [run_id]


def test_paths_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(tmp_path)
    for below in (tmp_path / "file" / "store.sqlite", tmp_path / "file" / "deeper" / "store.sqlite"):
        with pytest.raises(StoreError, match="not a folder; choose another path"):
            Store.open(below)
    for text in ("", "  ", "sqlite:///file:x?mode=ro&uri=true", "no such dialect://x", "nodialect://host/name"):
        with pytest.raises(StoreError) as caught:
            Store.open(text)
        assert _is_one_sentence(caught.value), text


def test_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "50% ?#ö" / "store.sqlite"
    with Store.open(str(path)) as store:
        assert store.location == str(path)
    assert path.is_file()


@pytest.mark.parametrize("content", [b"this is a letter, not a database" * 40, b"\x00" * 5000])
def test_a_file_that_is_no_database_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.sqlite is not a Headway database; choose another path") as caught:
        Store.open(path)
    assert _is_one_sentence(caught.value) and path.read_bytes() == content


def _big_store(path: Path) -> str:
    with Store.open(path) as store:
        run_id = new_run(store, "x" * 50_000, start=True)
        for first in range(0, 640, 64):
            noise = [{"step": first + i, "noise": os.urandom(60).hex()} for i in range(64)]
            store.append_steps(run_id, first, noise)
    return run_id


def test_a_damaged_database_is_refused_at_opening(path: Path) -> None:
    _big_store(path)
    with path.open("r+b") as handle:
        handle.seek(4096)
        handle.write(b"\xff" * 20_000)
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match=r"store\.sqlite is damaged.*put back a copy") as caught:
        Store.open(path)
    assert _is_one_sentence(caught.value) and path.read_bytes() == damaged


def test_a_cut_off_database_is_refused_at_opening(path: Path) -> None:
    _big_store(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(path)


def test_damage_after_opening_is_reported(path: Path) -> None:
    run_id = _big_store(path)
    with Store.open(path) as store:
        store.close()  # the next call connects anew; this connection would answer from its cache
        with path.open("r+b") as handle:
            handle.seek(8192)
            handle.write(b"\xff" * (path.stat().st_size - 8192))
        with pytest.raises(StoreError, match="damaged"):
            store.steps(run_id)


def test_a_damaged_chunk_names_its_run(path: Path) -> None:
    with Store.open(path) as store:
        run_id = new_run(store, start=True)
        store.append_steps(run_id, 0, steps(0, 64))
        for blob in ("x'02'", "substr(blob, 1, 40)", "x'01' || zeroblob(30)"):
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(f"UPDATE trace_chunks SET blob = {blob}")
                connection.commit()
            with pytest.raises(StoreError, match=f"Steps from 0 of run {run_id} are damaged"):
                store.steps(run_id)
        assert store.get_run(run_id).status == "running"


def test_a_full_disk_loses_nothing_and_stores_no_half(path: Path) -> None:
    Store.open(path).close()
    engine = make_engine(resolve_url(path))
    pages = {"limit": path.stat().st_size // 4096 + 30}
    event.listen(
        engine, "checkout", lambda connection, *_: connection.execute(f"PRAGMA max_page_count={pages['limit']}")
    )
    with Store(engine) as store:
        run_id = new_run(store, start=True)
        stored = 0
        with pytest.raises(StoreError, match=r"The disk that holds .*store\.sqlite is full; free some space") as caught:
            while stored < 10_000:
                store.append_steps(run_id, stored, [{"noise": os.urandom(8_000).hex()}])
                stored += 1
        assert _is_one_sentence(caught.value) and 1 <= stored < 30
        assert store.num_stored_steps(run_id) == len(store.steps(run_id)) == stored
        with pytest.raises(StoreError, match="is full"):
            new_run(store, "x" * 100_000)
        assert store.count_runs() == 1
        pages["limit"] += 1000  # space was freed: the same call goes through, the run ends well
        store.append_steps(run_id, stored, steps(stored, 1))
        store.finish_run(run_id, RESULT)
        assert store.get_run(run_id).status == "finished"


def test_a_locked_database_is_waited_for_then_reported(path: Path) -> None:
    with Store.open(path, busy_timeout_s=0.05) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        run_id = new_run(store)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked by another process") as caught:
            store.start_run(run_id)
        assert _is_one_sentence(caught.value)
        assert store.get_run(run_id).status == "queued"  # readers do not wait
        with pytest.raises(UnavailableError, match="locked"):
            Store.open(path, busy_timeout_s=0.05)
        other.execute("ROLLBACK")
        store.start_run(run_id)


def test_a_folder_that_vanishes_is_reported(path: Path) -> None:
    with Store.open(path.parent / "sub" / path.name) as store:
        register(store)
        store.close()
        (path.parent / "sub").rename(path.parent / "elsewhere")
        with pytest.raises(StoreError, match="cannot be opened"):
            store.list_runs()


def test_a_server_that_does_not_answer_is_reported_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="needs the PostgreSQL driver: pip install 'psycopg[binary]'")
    with pytest.raises(UnavailableError, match="does not answer") as caught:
        Store.open("postgresql+psycopg://me:secret@127.0.0.1:1/headway")
    assert _is_one_sentence(caught.value) and "secret" not in str(caught.value) and "me:***@" in str(caught.value)


def test_a_refused_row_is_rolled_back_whole(path: Path) -> None:
    with Store.open(path) as store:
        with pytest.raises(StoreError, match=r"refused a change .*; nothing was stored") as caught:
            store.create_run(prompt=None, drafter_name="n", settings={})  # type: ignore[arg-type]
        assert _is_one_sentence(caught.value) and store.count_runs() == 0


def test_pruned_traces_give_their_space_back(path: Path) -> None:
    run_id = _big_store(path)
    with Store.open(path) as store:
        store.cancel_run(run_id)
        before = store.usage()
        store.prune_traces(keep_runs=0)
        after = store.usage()
        store.cancel_run(new_run(store))  # what is left is a whole database
    assert before.file_bytes and after.file_bytes and before.trace_bytes > 20_000
    assert before.file_bytes - after.file_bytes > before.trace_bytes / 2


def test_file_errors_become_sentences() -> None:
    sentences = {code: from_file_system(OSError(code, os.strerror(code)), "/x/y") for code in (28, 13, 30, 20, 2, 5)}
    assert all(_is_one_sentence(error) and "/x/y" in str(error) for error in sentences.values())
    assert "full" in str(sentences[28]) and "Input/output error" in str(sentences[5])
    assert isinstance(sentences[2], NotFoundError)


def test_lists_use_indices_and_never_read_traces(path: Path) -> None:
    statements: list[str] = []
    with Store.open(path) as store:
        new_run(store, start=True)
        event.listen(store._engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
        store.list_runs()
    (query,) = [statement for statement in statements if "FROM decode_runs" in statement]
    assert "trace_chunks" not in query and "decode_runs.text" not in query and "decode_runs.tokens" not in query
    with closing(sqlite3.connect(path)) as connection:
        plan = str(connection.execute("EXPLAIN QUERY PLAN " + query, (1, 200, 50, 0)).fetchall())
        assert "USING INDEX" in plan and "TEMP B-TREE" not in plan, plan
