"""The supervisor over real processes: order of the queue, killed and frozen workers, closing that loses nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.jobs.supervisor import Supervisor
from backend.settings import Settings
from storage import JobRecord, Store, owner_is_alive, owner_token
from tests.jobs import light
from tests.jobs.conftest import queued, wait_for

Start = Callable[..., Supervisor]


class Gate:
    """Remembers who had the device."""

    def __init__(self) -> None:
        self.holders: list[str] = []
        self.open = 0
        self.place = "auto"

    @contextmanager
    def lend(self, holder: Callable[[], str], job: str | None = None) -> Iterator[None]:
        self.open += 1
        assert self.open == 1, "two jobs have the device"
        yield
        self.holders.append(holder())
        self.open -= 1


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def start(store: Store, settings: Settings, gate: Gate) -> Iterator[Start]:
    """A running supervisor; closed at the end."""
    running: list[Supervisor] = []

    def begin(**options: object) -> Supervisor:
        made = Supervisor(
            str(settings.database), settings, gate, tick_s=0.1, launch=light.launch, **options  # type: ignore[arg-type]
        )  # fmt: skip
        made.start()
        running.append(made)
        return made

    yield begin
    for one in running:
        one.close(grace_s=10)


def pid_of(job: JobRecord) -> int:
    return int((job.owner or "").rsplit("/", 2)[1])


def counted(store: Store, job: JobRecord) -> list[int]:
    return [row.step for row in store.metrics(job.id)]


def status(store: Store, job: JobRecord) -> str:
    return store.get_job(job.id).status


def test_jobs_take_turns_in_the_order_of_the_queue(store: Store, start: Start, gate: Gate, settings: Settings) -> None:
    first, second = queued(store, steps=4), queued(store, steps=3)
    store.move_job(second.id, first.id)
    start()
    wait_for(lambda: status(store, first) == "finished")
    one, other = store.get_job(first.id), store.get_job(second.id)
    assert other.finished_at is not None and one.started_at is not None and other.finished_at <= one.started_at
    wait_for(lambda: len(gate.holders) == 2)
    assert "Counting from 0." in (settings.jobs / first.id / "log.txt").read_text()


def test_a_job_for_the_cpu_does_not_wait_for_the_device_of_the_engine(store: Store, start: Start, gate: Gate) -> None:
    gate.place = "cuda:0"
    holding = queued(store, steps=40, pause_s=0.05)
    config = queued(store, steps=2).config
    beside = store.create_job(kind="count", name="Beside", config=config, device="cpu")
    start()
    wait_for(lambda: status(store, beside) == "finished")
    assert status(store, holding) in ("queued", "running") and gate.holders == []
    wait_for(lambda: len(gate.holders) == 2)  # the one that held it, and the one that waited for it
    assert "Beside" not in " ".join(gate.holders)


def test_a_killed_worker_is_noticed_and_the_job_goes_on(store: Store, start: Start) -> None:
    job = queued(store, steps=30, pause_s=0.05)
    start()
    wait_for(lambda: len(counted(store, job)) >= 3)
    os.kill(pid_of(store.get_job(job.id)), signal.SIGKILL)
    wait_for(lambda: status(store, job) == "interrupted")
    error = store.get_job(job.id).error
    assert error is not None and "SIGKILL" in error
    store.resume_job(job.id)
    wait_for(lambda: status(store, job) == "finished")
    assert counted(store, job) == list(range(1, 31)) and store.get_job(job.id).attempt == 2


def test_a_frozen_worker_is_killed_and_shown_interrupted(store: Store, start: Start) -> None:
    job = queued(store, trouble="frozen")
    start(hung_s=3.0)
    wait_for(lambda: status(store, job) == "interrupted")
    ended = store.get_job(job.id)
    assert ended.error is not None and "no sign of life" in ended.error
    wait_for(lambda: not owner_is_alive(str(ended.owner)))  # really gone, not only called so


def test_a_long_write_of_somebody_else_is_not_taken_for_a_frozen_worker(
    store: Store, start: Start, settings: Settings
) -> None:
    job = queued(store, steps=30, pause_s=0.05)
    start(hung_s=2.0)
    wait_for(lambda: len(counted(store, job)) >= 2)
    other = sqlite3.connect(settings.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    time.sleep(5)  # no beat can be stored meanwhile
    other.execute("ROLLBACK")
    other.close()
    wait_for(lambda: status(store, job) != "running")
    assert (status(store, job), store.get_job(job.id).attempt) == ("finished", 1)


def test_closing_saves_and_queues_the_job_again(store: Store, start: Start) -> None:
    job = queued(store, steps=200, pause_s=0.05)
    waiting = queued(store, steps=2)
    supervisor = start()
    wait_for(lambda: len(counted(store, job)) >= 3)
    supervisor.close(grace_s=30)
    assert [status(store, one) for one in (job, waiting)] == ["queued", "queued"]
    assert [one.id for one in store.list_jobs(statuses=["queued"], order="queue")] == [job.id, waiting.id]
    before = len(counted(store, job))
    store.request_job(job.id, "stop")
    start()
    wait_for(lambda: status(store, waiting) == "finished")
    assert status(store, job) == "stopped" and len(counted(store, job)) == before


def test_a_worker_that_outlived_its_supervisor_is_adopted(
    store: Store, start: Start, settings: Settings, gate: Gate
) -> None:
    job, later = queued(store, steps=60, pause_s=0.05), queued(store, steps=2)
    process = light.launch(("--db", str(settings.database), "--job", job.id), settings, job.id)
    wait_for(lambda: len(counted(store, job)) >= 2)
    start()
    wait_for(lambda: gate.open == 1)
    assert status(store, later) == "queued"
    wait_for(lambda: status(store, later) == "finished")
    assert status(store, job) == "finished" and process.wait(10) == 0 and store.get_job(job.id).attempt == 1


def test_jobs_of_the_dead_are_interrupted_at_the_start(store: Store, start: Start) -> None:
    job = queued(store)
    host, _, birth = owner_token().rsplit("/", 2)
    store.lease_job(f"{host}/{2**22 + 1}/{birth}", job_id=job.id)
    start()
    wait_for(lambda: status(store, job) == "interrupted")


def test_a_worker_that_cannot_start_fails_its_job_with_its_last_words(
    store: Store, start: Start, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "sqlalchemy.py"
    broken.write_text("raise ModuleNotFoundError('No module named sqlalchemy')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    job = queued(store)
    start()
    wait_for(lambda: status(store, job) == "failed")
    error = store.get_job(job.id).error
    assert error is not None and "No module named sqlalchemy" in error
