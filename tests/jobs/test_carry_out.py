"""One job from lease to end: how it ends in the store whatever happens; a stale attempt writes nothing more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from backend.errors import HeadwayError
from backend.jobs.carry_out import Outcome, carry_out
from backend.jobs.locks import only_one
from backend.jobs.store_context import StoreContext
from backend.settings import Settings
from storage import JobRecord, Store, StoreError
from storage.errors import StaleAttemptError
from tests.jobs.conftest import leased, wait_for

pytestmark = pytest.mark.usefixtures("counting")


def context_of(store: Store, job: JobRecord, settings: Settings, patience_s: float = 5.0) -> StoreContext:
    def stale() -> None:
        raise AssertionError("this attempt is not stale")

    return StoreContext(
        store, job, settings, on_stale=stale, say=lambda _: None, patience_s=patience_s, beat_s=0.02
    )  # fmt: skip


def run(store: Store, job: JobRecord, settings: Settings) -> Outcome:
    return carry_out(context_of(store, job, settings))


def test_it_ends_finished_with_everything_it_said(store: Store, settings: Settings) -> None:
    job = leased(store, steps=7)
    assert run(store, job, settings).result == {"sum": 28}
    ended = store.get_job(job.id)
    assert (ended.status, ended.result, ended.error) == ("finished", {"sum": 28}, None)
    assert ended.progress is not None and ended.progress["done"] == 7 and ended.beat > 0
    assert [row.values["square"] for row in store.metrics(job.id)] == [n * n for n in range(1, 8)]
    assert {item.key: item.data["done"] for item in store.items(job.id)} == {"step 0": 6, "step 1": 7, "step 2": 5}


@pytest.mark.parametrize(
    ("trouble", "part"),
    [
        ("memory", "lower batch (now 4)"),
        ("torch memory", "lower batch (now 4)"),
        ("package", "package peft is missing"),
        ("sentence", "answers are empty"),
        ("disk", "disk is full"),
        ("bug", "KeyError"),
    ],
)
def test_trouble_is_one_sentence_in_the_store(store: Store, settings: Settings, trouble: str, part: str) -> None:
    job = leased(store, trouble=trouble)
    run(store, job, settings)
    ended = store.get_job(job.id)
    assert ended.status == "failed" and ended.error is not None and part in ended.error
    assert "\n" not in ended.error and "Traceback" not in ended.error


def test_an_unknown_setting_is_named(store: Store, settings: Settings) -> None:
    made = store.create_job(kind="count", name="Count", config={"stepps": 3})
    job = store.lease_job("somebody", job_id=made.id)
    assert job is not None
    run(store, job, settings)
    error = store.get_job(job.id).error
    assert error is not None and "'stepps'" in error and "did you mean steps?" in error


@pytest.mark.parametrize(("wanted", "status"), [("stop", "stopped"), ("pause", "paused")])
def test_asked_to_end_it_ends_and_goes_on_where_it_was(
    store: Store, settings: Settings, wanted: str, status: str
) -> None:
    job = leased(store, steps=12, pause_s=0.05)
    done: list[Outcome] = []
    worker = threading.Thread(target=lambda: done.append(run(store, job, settings)))
    worker.start()
    wait_for(lambda: len(store.metrics(job.id)) >= 2)
    store.request_job(job.id, wanted)  # type: ignore[arg-type]
    worker.join()
    assert done[0].status == store.get_job(job.id).status == status
    before = len(store.metrics(job.id))
    assert before < 12
    store.resume_job(job.id)
    again = store.lease_job("me", job_id=job.id)
    assert again is not None and again.attempt == 2
    assert run(store, again, settings).status == "finished"
    assert [row.step for row in store.metrics(job.id)] == list(range(1, 13))


def test_a_data_file_that_changed_is_refused_and_the_old_one_accepted(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("old")
    job = leased(store, data=str(data), trouble="sentence")
    run(store, job, settings)
    data.write_text("new")
    for content, part in (("new", "has changed since this job started"), ("old", "answers are empty")):
        data.write_text(content)
        store.resume_job(job.id)
        again = store.lease_job("me", job_id=job.id)
        assert again is not None
        run(store, again, settings)
        error = store.get_job(job.id).error
        assert error is not None and part in error


def test_a_stale_attempt_is_told_and_writes_nothing_more(store: Store, settings: Settings) -> None:
    job = leased(store)
    told = threading.Event()
    context = StoreContext(store, job, settings, on_stale=told.set, say=lambda _: None, beat_s=0.02)
    with context:
        context.metrics(1, {"loss": 2.0})
        store.interrupt_job(job.id, job.attempt, "The laptop slept.")
        store.resume_job(job.id)
        newer = store.lease_job("newer", job_id=job.id)
        assert told.wait(10)
        with pytest.raises(StaleAttemptError):
            context.metrics(2, {"loss": 1.0})
        with pytest.raises(StaleAttemptError):
            context.end("finished")
    assert newer is not None and store.get_job(job.id).status == "running"
    assert [row.step for row in store.metrics(job.id)] == [1]


class Away(Store):
    """A store whose database is out of reach for its first writes."""

    refusals = 3

    def _refuse(self) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise StoreError("The database cannot be opened; check that its folder exists and is writable.")

    def add_metrics(self, *args: object, **kwargs: object) -> None:
        self._refuse()
        super().add_metrics(*args, **kwargs)  # type: ignore[arg-type]


def test_a_database_that_goes_away_and_comes_back_costs_nothing(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    with Away.open(settings.database) as store:
        job = leased(store, steps=4)
        assert run(store, job, settings).status == "finished"
        assert store.refusals == 0 and [row.step for row in store.metrics(job.id)] == [1, 2, 3, 4]


def test_a_database_that_stays_away_ends_the_job_with_its_work_kept(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    with Away.open(settings.database) as store:
        job = leased(store, steps=4)
        store.refusals = 10_000
        outcome = carry_out(context_of(store, job, settings, patience_s=0.3))
        assert outcome.status == "interrupted" and outcome.error is not None and "cannot be opened" in outcome.error
        store.refusals = 0
        store.resume_job(job.id)
        again = store.lease_job("me", job_id=job.id)
        assert again is not None and run(store, again, settings).status == "finished"


def test_two_processes_never_hold_one_place(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with only_one(lock, "the answers"), pytest.raises(HeadwayError, match="is writing to the answers"):
        only_one(lock, "the answers").__enter__()
    assert not lock.exists()
    with only_one(lock, "the answers"):
        pass
