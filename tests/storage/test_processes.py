"""Several processes on one database, and processes that are killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from storage import RunFilter, Store, owner_is_alive, owner_token
from tests.storage.samples import steps

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from storage import Store
from tests.storage.samples import RESULT, new_run, register, steps

url, name, num_chunks, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Store.open(url) as store:
    register(store)
    run_id = new_run(store, name, start=True)
    print(run_id, flush=True)
    for chunk in range(num_chunks):
        store.append_steps(run_id, chunk * size, steps(chunk * size, size))
        print(chunk + 1, flush=True)
    store.finish_run(run_id, RESULT)
"""


def _start(url: str, name: str, num_chunks: int, size: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, name, str(num_chunks), str(size)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_create_and_write_one_database_at_once(shared_url: str) -> None:
    names = ["first", "second", "third"]
    writers = [_start(shared_url, name, 15, 4) for name in names]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    with Store.open(shared_url) as store:
        runs = store.list_runs(RunFilter(status="finished"))
        assert sorted(run.prompt_start for run in runs) == sorted(names)
        assert all(store.steps(run.id) == steps(0, 60) for run in runs)
        assert len(store.list_versions()) == 1


@pytest.mark.parametrize("num_seen", [1, 7, 20])
def test_a_killed_writer_leaves_whole_chunks(shared_url: str, num_seen: int) -> None:
    writer = _start(shared_url, "killed", 100_000, 50)
    assert writer.stdout is not None
    run_id = writer.stdout.readline().strip()
    for _ in range(num_seen):
        writer.stdout.readline()
    writer.kill()
    writer.communicate(timeout=60)
    with Store.open(shared_url) as store:
        num_stored = store.num_stored_steps(run_id)
        assert num_stored >= 50 * num_seen and num_stored % 50 == 0
        assert store.steps(run_id) == steps(0, num_stored)
        assert store.get_run(run_id).status == "running"
        assert store.mark_interrupted() == [run_id]
        assert store.get_run(run_id).status == "interrupted"
    if "://" not in shared_url:
        with closing(sqlite3.connect(shared_url)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_live_writer_is_not_interrupted(tmp_path: Path) -> None:
    path = str(tmp_path / "store.sqlite")
    writer = _start(path, "alive", 100_000, 1)
    assert writer.stdout is not None
    run_id = writer.stdout.readline().strip()
    try:
        with Store.open(path) as store:
            assert store.mark_interrupted() == []
            assert store.get_run(run_id).status == "running"
    finally:
        writer.kill()
        writer.communicate(timeout=60)


def test_tokens_tell_the_living_from_the_dead() -> None:
    token = owner_token()
    assert token == owner_token() and owner_is_alive(token)
    child = subprocess.Popen(
        [sys.executable, "-c", "import storage; print(storage.owner_token(), flush=True); input()"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    its_token = child.stdout.readline().strip()
    assert its_token != token and owner_is_alive(its_token)
    child.kill()
    child.communicate(timeout=60)
    assert not owner_is_alive(its_token)


def test_a_reused_process_id_is_another_process() -> None:
    host, pid, birth = owner_token().rsplit("/", 2)
    if birth == "unknown":
        pytest.skip("this system does not tell when a process started")
    assert pid == str(os.getpid())
    assert not owner_is_alive(f"{host}/{pid}/{birth}9")


def test_what_cannot_be_looked_up_counts_as_alive() -> None:
    for token in ("elsewhere/1/abc.1", "a word", "", "host/not a number/abc.1"):
        assert owner_is_alive(token), token


def test_without_start_times_the_process_id_decides() -> None:
    host, pid, _ = owner_token().rsplit("/", 2)
    assert owner_is_alive(f"{host}/{pid}/unknown")
    assert not owner_is_alive(f"{host}/4194305/unknown")  # above the largest process id of Linux
