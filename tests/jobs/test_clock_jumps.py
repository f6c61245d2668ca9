"""Clocks that jump an hour: no job that beats is declared dead, none that is dead lives on, no stale attempt writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from backend.jobs.steady import SteadyClock
from backend.jobs.supervisor import Supervisor
from backend.settings import Settings
from storage import StaleAttemptError, Store, owner_is_alive, owner_token
from tests.jobs import light
from tests.jobs.conftest import queued, wait_for

HOUR_S = 3600.0
Start = Callable[..., Supervisor]
both_ways = pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])


class Clock:
    """The monotonic clock, and on request an hour away from it."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.off_s

    def wall(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.off_s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Iterator[Store]:
    """Its rows are dated by the clock that jumps."""
    settings.home.mkdir(parents=True)
    with Store.open(settings.database, clock=clock.wall) as opened:
        yield opened


@pytest.fixture
def start(store: Store, settings: Settings, clock: Clock) -> Iterator[Start]:
    running: list[Supervisor] = []

    def begin(hung_s: float) -> Supervisor:
        made = Supervisor(
            str(settings.database), settings, hung_s=hung_s, tick_s=0.1, clock=clock, launch=light.launch
        )  # fmt: skip
        made.start()
        running.append(made)
        return made

    yield begin
    for one in running:
        one.close(grace_s=10)


@both_ways
def test_a_job_that_beats_outlives_the_jump(store: Store, start: Start, clock: Clock, jump_s: float) -> None:
    job = queued(store, steps=70, pause_s=0.05)
    start(hung_s=30.0)
    wait_for(lambda: len(store.metrics(job.id)) >= 3)
    clock.off_s = jump_s
    wait_for(lambda: store.get_job(job.id).status != "running")
    ended = store.get_job(job.id)
    assert (ended.status, ended.attempt) == ("finished", 1)


@both_ways
def test_a_worker_that_froze_is_noticed_all_the_same(store: Store, start: Start, clock: Clock, jump_s: float) -> None:
    job = queued(store, trouble="frozen")
    start(hung_s=2.0)
    wait_for(lambda: store.get_job(job.id).status == "running")
    time.sleep(0.5)  # its beat has been seen
    clock.off_s = jump_s
    wait_for(lambda: store.get_job(job.id).status == "interrupted", within_s=60)
    wait_for(lambda: not owner_is_alive(str(store.get_job(job.id).owner)))


def test_a_frozen_worker_gets_no_more_than_its_grace_when_closing(store: Store, start: Start, clock: Clock) -> None:
    job = queued(store, trouble="frozen")
    supervisor = start(hung_s=1000.0)
    wait_for(lambda: store.get_job(job.id).status == "running")
    owner = str(store.get_job(job.id).owner)
    back = threading.Timer(0.3, lambda: setattr(clock, "off_s", -HOUR_S))
    back.start()
    supervisor.close(grace_s=1.0)
    back.join()
    wait_for(lambda: not owner_is_alive(owner), within_s=60)


@both_ways
def test_a_stale_attempt_is_refused_whatever_the_time(store: Store, clock: Clock, jump_s: float) -> None:
    job = queued(store)
    first = store.lease_job(owner_token(), job_id=job.id)
    assert first is not None
    clock.off_s = jump_s
    assert store.interrupt_dead_jobs() == []  # its process lives
    store.heartbeat(job.id, first.attempt)
    store.interrupt_job(job.id, first.attempt, "It was silent.")
    store.resume_job(job.id)
    second = store.lease_job(owner_token(), job_id=job.id)
    assert second is not None and second.attempt == first.attempt + 1
    for write in (
        lambda: store.heartbeat(job.id, first.attempt),
        lambda: store.add_metrics(job.id, first.attempt, [(1, {"loss": 1.0})]),
        lambda: store.put_items(job.id, first.attempt, {"part": {}}),
        lambda: store.end_job(job.id, first.attempt, "finished"),
    ):
        with pytest.raises(StaleAttemptError):
            write()  # type: ignore[no-untyped-call]
    store.end_job(job.id, second.attempt, "finished")
    assert store.get_job(job.id).status == "finished" and store.metrics(job.id) == []


def test_a_steady_clock_counts_little_of_a_leap_and_nothing_of_a_step_back() -> None:
    told = iter([100.0, 101.0, 5000.0, 5002.0, 1.0, 4.0])
    clock = SteadyClock(lambda: next(told), most_s=10.0)
    assert [clock() for _ in range(5)] == [1.0, 11.0, 13.0, 13.0, 16.0]
