"""A database that goes away for a while: calls say so at once or after the busy timeout, and patient callers go on."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from storage import Store, StoreError, UnavailableError, retrying
from tests.storage import postgres


class _Clock:
    """A monotonic clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now += pause_s


def _failing(times: int, error: Exception) -> Callable[[], str]:
    left = [times]

    def call() -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "done"

    return call


def test_a_call_is_repeated_until_it_succeeds() -> None:
    clock = _Clock()
    assert retrying(_failing(0, UnavailableError()), patience_s=30, sleep=clock.sleep, clock=clock) == "done"
    assert clock.pauses == []
    assert retrying(_failing(9, UnavailableError()), patience_s=30, sleep=clock.sleep, clock=clock) == "done"
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0]


def test_patience_ends() -> None:
    clock = _Clock()
    with pytest.raises(UnavailableError, match="away"):
        retrying(_failing(10**6, UnavailableError("away")), patience_s=30, sleep=clock.sleep, clock=clock)
    assert clock.now == pytest.approx(30) and len(clock.pauses) < 20
    with pytest.raises(UnavailableError):
        retrying(_failing(1, UnavailableError()), patience_s=0, sleep=clock.sleep, clock=clock)


def test_what_waiting_does_not_mend_is_raised_at_once() -> None:
    clock = _Clock()
    for error in (StoreError("full"), ValueError("wrong")):
        with pytest.raises(type(error)):
            retrying(_failing(1, error), patience_s=30, sleep=clock.sleep, clock=clock)
    assert clock.pauses == []


def test_a_folder_that_comes_back_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    with Store.open(tmp_path / "disk" / "store.sqlite") as store:
        job = store.create_job(kind="train", name="heads", config={})
        store.lease_job("me")
        store.close()  # as after a sleep: the next call connects anew
        (tmp_path / "disk").rename(tmp_path / "away")
        with pytest.raises(UnavailableError, match="cannot be opened"):
            store.add_metrics(job.id, 1, [(1, {"loss": 1.0})])

        def sleep(_: float) -> None:
            if (tmp_path / "away").exists():
                (tmp_path / "away").rename(tmp_path / "disk")

        retrying(lambda: store.add_metrics(job.id, 1, [(1, {"loss": 1.0})]), patience_s=30, sleep=sleep)
        assert len(store.metrics(job.id)) == 1


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path, busy_timeout_s=0.02) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        job = store.create_job(kind="train", name="heads", config={})
        store.lease_job("me")
        other.execute("BEGIN IMMEDIATE")
        tries = []

        def sleep(pause_s: float) -> None:
            tries.append(pause_s)
            if len(tries) == 3:
                other.execute("ROLLBACK")

        assert retrying(lambda: store.heartbeat(job.id, 1), patience_s=30, sleep=sleep) is None
        assert len(tries) == 3 and store.get_job(job.id).beat == 1


def test_a_server_that_restarts_loses_nothing() -> None:
    pytest.importorskip("psycopg", reason="needs the PostgreSQL driver: pip install 'psycopg[binary]'")
    try:
        with postgres.own_server() as server, Store.open(server.url) as store:
            _check_restart(server, store)
    except postgres.Unavailable as reason:
        postgres.skip(str(reason))


def _check_restart(server: postgres.PostgresServer, store: Store) -> None:
    job = store.create_job(kind="train", name="heads", config={})
    store.lease_job("me")
    store.add_metrics(job.id, 1, [(0, {"loss": 1.0})])
    server.stop()
    for call in (lambda: store.get_job(job.id), lambda: store.heartbeat(job.id, 1), lambda: Store.open(server.url)):
        with pytest.raises(UnavailableError, match="does not answer") as caught:
            call()  # type: ignore[no-untyped-call]
        assert "\n" not in str(caught.value)
    restart = threading.Timer(0.3, server.start)
    restart.start()
    try:
        for step in range(1, 5):
            retrying(lambda step=step: store.add_metrics(job.id, 1, [(step, {"loss": 1.0})]), patience_s=60)
    finally:
        restart.join()
    assert [row.step for row in store.metrics(job.id)] == list(range(5))


def test_a_row_that_another_process_holds_is_given_up_after_the_busy_timeout(postgres_url: str) -> None:
    postgres.emptied(postgres_url)
    with Store.open(postgres_url, busy_timeout_s=0.1) as store, Store.open(postgres_url) as other:
        job = store.create_job(kind="train", name="heads", config={})
        store.lease_job("me")
        with other._writing() as session:
            session.connection().exec_driver_sql("SELECT 1 FROM jobs FOR UPDATE")
            began = time.monotonic()
            with pytest.raises(UnavailableError):
                store.heartbeat(job.id, 1)
            assert time.monotonic() - began < 20  # the server's own timeout is to wait for ever
        assert store.heartbeat(job.id, 1) is None
