"""Jobs, for every database: the queue, the lease, the states, and what workers may write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from storage import JobRecord, NotFoundError, StaleAttemptError, Store, StoreError
from tests.storage.samples import NASTY, register

ENDS = ("finished", "failed", "stopped", "paused", "interrupted")


def _new(store: Store, name: str = "heads", **more: Any) -> str:
    return store.create_job(kind=more.pop("kind", "train"), name=name, config={"seed": 1}, **more).id


def _lease(store: Store, job_id: str | None = None) -> JobRecord:
    job = store.lease_job("me", job_id=job_id)
    assert job is not None
    return job


def _ended(store: Store, status: Any) -> str:
    job_id = _new(store)
    store.end_job(job_id, _lease(store, job_id).attempt, status)
    return job_id


def _queue(store: Store) -> list[str]:
    return [job.id for job in store.list_jobs(statuses=["queued"], order="queue")]


def test_a_job_from_start_to_end(store: Store) -> None:
    parent = _new(store)
    made = store.create_job(
        kind="train",
        name=NASTY,
        config={NASTY: [1, 2.5, None, NASTY]},
        device="cuda:0",
        exclusive="/out/" + NASTY,
        parent_id=parent,
        tags=("a", NASTY),
        notes=NASTY,
    )
    assert made == store.get_job(made.id)
    assert (made.status, made.attempt, made.beat, made.started_at, made.is_open) == ("queued", 0, 0, None, True)
    assert made.name == made.notes == NASTY and made.config == {NASTY: [1, 2.5, None, NASTY]}
    assert (made.tags, made.exclusive, made.parent_id) == (("a", NASTY), "/out/" + NASTY, parent)
    leased = store.lease_job("host/1/x", job_id=made.id)
    assert leased == store.get_job(made.id) and leased is not None
    assert (leased.status, leased.attempt, leased.owner) == ("running", 1, "host/1/x")
    assert leased.started_at and leased.started_at >= leased.created_at
    assert store.heartbeat(made.id, 1) is None
    assert store.heartbeat(made.id, 1, {"done": 3, "note": NASTY}) is None
    assert store.heartbeat(made.id, 1) is None
    beating = store.get_job(made.id)
    assert (beating.beat, beating.progress) == (3, {"done": 3, "note": NASTY})
    version = register(store)
    dataset = store.register_dataset(
        kind="answers", name="d", path="p", content_hash="h", num_rows=1, num_broken=0, details={}
    )
    store.link_job(made.id, 1, version_id=version.id)
    store.link_job(made.id, 1, dataset_id=dataset.id)
    store.end_job(made.id, 1, "finished", result={"loss": math.inf, "note": NASTY})
    done = store.get_job(made.id)
    assert (done.status, done.result, done.is_open) == ("finished", {"loss": math.inf, "note": NASTY}, False)
    assert (done.version_id, done.dataset_id, done.drafter_id) == (version.id, dataset.id, None)
    assert done.finished_at and done.started_at and done.finished_at >= done.started_at


def test_jobs_are_leased_in_the_order_of_the_queue(store: Store) -> None:
    ids = [_new(store, str(i), kind=["train", "distill"][i % 2], device=["cpu", "auto"][i // 3]) for i in range(6)]
    assert [job.position for job in store.list_jobs(order="queue")] == sorted(store.get_job(i).position for i in ids)
    assert _lease(store).id == ids[0]
    kind = store.lease_job("me", kinds=["distill"])
    device = store.lease_job("me", devices=["auto"])
    assert kind and kind.id == ids[1] and device and device.id == ids[3]
    assert _lease(store, ids[5]).id == ids[5]
    assert store.lease_job("me", job_id=ids[5]) is None and store.lease_job("me", kinds=["sweep"]) is None
    assert [_lease(store).id, _lease(store).id] == [ids[2], ids[4]]
    assert store.lease_job("me") is None


def test_the_queue_can_be_put_in_any_order(store: Store) -> None:
    a, b, c, d = (_new(store, name) for name in "abcd")
    store.move_job(d, a)
    assert _queue(store) == [d, a, b, c]
    store.move_job(a, None)
    store.move_job(b, b)
    assert _queue(store) == [d, b, c, a]
    store.move_job(c, b)
    assert _queue(store) == [d, c, b, a]
    e = _new(store, "e")
    assert _lease(store).id == d and _queue(store) == [c, b, a, e]
    for job_id, before in ((d, a), (a, d)):
        with pytest.raises(StoreError, match="is running, not queued"):
            store.move_job(job_id, before)
    store.end_job(d, 1, "paused")
    store.resume_job(d)
    assert _queue(store) == [c, b, a, e, d]
    store.request_job(d, "stop")
    store.resume_job(d, front=True)
    assert _queue(store) == [d, c, b, a, e]


@pytest.mark.parametrize("status", ENDS)
def test_an_ended_attempt_writes_nothing_more(store: Store, status: Any) -> None:
    job_id = _new(store)
    attempt = _lease(store).attempt
    store.add_metrics(job_id, attempt, [(1, {"loss": 2.0})])
    store.put_items(job_id, attempt, {"k": {"v": 1}})
    store.end_job(job_id, attempt, status, error="Why." if status == "failed" else None)
    _refuses_every_write(store, job_id, attempt)
    assert store.get_job(job_id).error == ("Why." if status == "failed" else None)


def _refuses_every_write(store: Store, job_id: str, attempt: int) -> None:
    before = store.get_job(job_id), store.metrics(job_id), store.items(job_id)
    writes: list[Callable[[], object]] = [
        lambda: store.heartbeat(job_id, attempt, {"done": 9}),
        lambda: store.add_metrics(job_id, attempt, [(1, {"loss": 9.0})]),
        lambda: store.add_metrics(job_id, attempt, []),
        lambda: store.drop_metrics_after(job_id, attempt, 0),
        lambda: store.put_items(job_id, attempt, {"k": {"v": 9}}),
        lambda: store.end_job(job_id, attempt, "finished"),
        lambda: store.interrupt_job(job_id, attempt, "Why."),
        lambda: store.link_job(job_id, attempt),
    ]
    for write in writes:
        with pytest.raises(StaleAttemptError, match=rf"Job {job_id} is .* attempt {attempt} can no longer write"):
            write()
    assert (store.get_job(job_id), store.metrics(job_id), store.items(job_id)) == before


def test_a_worker_that_slept_cannot_write_into_the_next_attempt(store: Store) -> None:
    job_id = _new(store)
    assert _lease(store).attempt == 1
    store.add_metrics(job_id, 1, [(step, {"loss": 1.0}) for step in range(5)])
    store.interrupt_job(job_id, 1, "The worker did not answer for a minute.")
    assert store.get_job(job_id).error == "The worker did not answer for a minute."
    store.resume_job(job_id)
    _refuses_every_write(store, job_id, 1)
    job = _lease(store)
    assert (job.attempt, job.beat, job.error, job.finished_at) == (2, 0, None, None)
    _refuses_every_write(store, job_id, 1)
    _refuses_every_write(store, job_id, 3)
    store.drop_metrics_after(job_id, 2, 2)
    assert [row.step for row in store.metrics(job_id)] == [0, 1, 2]
    store.add_metrics(job_id, 2, [(step, {"loss": 2.0}) for step in range(2, 5)])
    assert {row.step: row.values["loss"] for row in store.metrics(job_id)} == {0: 1.0, 1: 1.0, 2: 2.0, 3: 2.0, 4: 2.0}


def test_metrics_are_followed_by_their_number(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    store.add_metrics(job_id, 1, [(10, {"loss": 1.0}), (20, {"loss": 0.5})])
    first = store.metrics(job_id)
    assert [(row.step, row.values) for row in first] == [(10, {"loss": 1.0}), (20, {"loss": 0.5})]
    assert store.metrics(job_id, first[-1].seq) == []
    store.add_metrics(job_id, 1, [(10, {"held_out": 0.9}), (30, {"loss": 0.2}), (10, {"loss": 1.5})])
    later = store.metrics(job_id, first[-1].seq)
    assert [(row.step, row.values) for row in later] == [(10, {"loss": 1.5, "held_out": 0.9}), (30, {"loss": 0.2})]
    assert [row.step for row in store.metrics(job_id)] == [20, 10, 30]
    assert [row.step for row in store.metrics(job_id, first[0].seq, limit=1)] == [20]
    other = _new(store)
    assert store.metrics(other) == []


def test_many_metrics_in_one_call(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    for offset in (0, 600):
        store.add_metrics(job_id, 1, [(step, {"loss": float(step + offset)}) for step in range(1_300)])
    rows = store.metrics(job_id)
    assert [row.step for row in rows] == list(range(1_300)) and [row.seq for row in rows] == list(range(1_301, 2_601))
    assert rows[7].values == {"loss": 607.0}


def test_figures_that_are_no_numbers_survive(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    store.add_metrics(job_id, 1, [(2**40, {"loss": math.nan, "norm": -math.inf, "tiny": 5e-324})])
    (row,) = store.metrics(job_id)
    assert row.step == 2**40 and math.isnan(row.values["loss"])
    assert (row.values["norm"], row.values["tiny"]) == (-math.inf, 5e-324)


def test_items_replace_each_other_by_key(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    store.put_items(job_id, 1, {"a": {"v": 1}, NASTY: {"v": [NASTY]}})
    seen = store.items(job_id)
    assert {item.key: item.data for item in seen} == {"a": {"v": 1}, NASTY: {"v": [NASTY]}}
    store.add_metrics(job_id, 1, [(1, {"loss": 1.0})])
    store.put_items(job_id, 1, {"a": {"v": 2}})
    (news,) = store.items(job_id, seen[-1].seq)
    assert (news.key, news.data) == ("a", {"v": 2}) and news.seq > store.metrics(job_id)[0].seq > seen[-1].seq
    assert len(store.items(job_id)) == 2


def test_requests_reach_a_running_job_with_its_next_beat(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    store.request_job(job_id, "pause")
    assert store.get_job(job_id).requested == store.heartbeat(job_id, 1) == "pause"
    store.request_job(job_id, "stop")
    store.request_job(job_id, "pause")
    assert store.heartbeat(job_id, 1) == "stop"
    store.end_job(job_id, 1, "stopped")
    assert store.get_job(job_id).requested is None
    store.resume_job(job_id)
    _lease(store)
    assert store.heartbeat(job_id, 2) is None


def test_requests_where_nobody_works(store: Store) -> None:
    for status, wanted, outcome in (
        (None, "stop", "stopped"),
        (None, "pause", "paused"),
        ("paused", "stop", "stopped"),
        ("paused", "pause", "paused"),
        ("interrupted", "stop", "stopped"),
        ("stopped", "stop", "stopped"),
        ("interrupted", "pause", None),
        ("finished", "stop", None),
        ("failed", "stop", None),
        ("stopped", "pause", None),
    ):
        job_id = _ended(store, status) if status else _new(store)
        if outcome is None:
            with pytest.raises(StoreError, match=f"is {status}, so there is nothing to {wanted}"):
                store.request_job(job_id, wanted)  # type: ignore[arg-type]
        else:
            store.request_job(job_id, wanted)  # type: ignore[arg-type]
        assert store.get_job(job_id).status == (outcome or status), (status, wanted)


def test_what_can_be_resumed(store: Store) -> None:
    for status in ("paused", "stopped", "interrupted", "failed"):
        job_id = _ended(store, status)
        store.resume_job(job_id)
        assert store.get_job(job_id).status == "queued"
        with pytest.raises(StoreError, match="is queued, so it cannot be resumed"):
            store.resume_job(job_id)
        assert _lease(store, job_id).attempt == 2
        with pytest.raises(StoreError, match="is running"):
            store.resume_job(job_id)
    with pytest.raises(StoreError, match="is finished"):
        store.resume_job(_ended(store, "finished"))


def test_two_jobs_never_write_to_one_place(store: Store) -> None:
    first = _new(store, "mine", exclusive="/out")
    _new(store, exclusive="/elsewhere")
    _new(store)
    _new(store)
    for _ in range(2):  # queued, then running
        with pytest.raises(StoreError, match=rf"Job {first} \(mine\) is \w+ and writes to /out too"):
            _new(store, "yours", exclusive="/out")
        store.lease_job("me", job_id=first)
    store.end_job(first, 1, "failed")
    second = _new(store, "yours", exclusive="/out")
    with pytest.raises(StoreError, match=rf"Job {second} \(yours\) is queued and writes to /out too"):
        store.resume_job(first)
    store.request_job(second, "pause")
    with pytest.raises(StoreError, match="is paused and writes"):
        store.resume_job(first)
    store.request_job(second, "stop")
    store.resume_job(first)
    assert store.get_job(first).status == "queued"


def test_jobs_of_dead_owners_are_interrupted(store: Store) -> None:
    names = ("alive", "dead", "dead", "dead")
    ids = [_new(store) for _ in names]
    for name, job_id in zip(names, ids, strict=True):
        store.lease_job(name, job_id=job_id)
    store.end_job(ids[3], 1, "finished")
    waiting = _new(store)
    store.add_metrics(ids[1], 1, [(1, {"loss": 1.0})])
    assert store.interrupt_dead_jobs(lambda owner: owner == "alive") == ids[1:3]
    assert [store.get_job(i).status for i in [*ids, waiting]] == [
        "running", "interrupted", "interrupted", "finished", "queued",
    ]  # fmt: skip
    assert "resume the job" in (store.get_job(ids[1]).error or "") and len(store.metrics(ids[1])) == 1
    assert store.interrupt_dead_jobs(lambda owner: owner == "alive") == []
    assert store.interrupt_dead_jobs() == []  # tokens that cannot be looked up count as alive


def test_deleting_a_job_deletes_what_it_wrote(store: Store) -> None:
    gone, kept = _new(store), _new(store, exclusive="/out")
    for job_id in (gone, kept):
        _lease(store, job_id)
        store.add_metrics(job_id, 1, [(1, {"loss": 1.0})])
        store.put_items(job_id, 1, {"k": {}})
    child = _new(store, parent_id=gone)
    with pytest.raises(StoreError, match="is running; stop it"):
        store.delete_job(gone)
    store.end_job(gone, 1, "interrupted")
    with pytest.raises(StoreError, match="is interrupted; stop it"):
        store.delete_job(gone)
    store.request_job(gone, "stop")
    store.delete_job(gone)
    with pytest.raises(NotFoundError):
        store.get_job(gone)
    assert store.get_job(child).parent_id is None
    assert len(store.metrics(kept)) == len(store.items(kept)) == 1
    assert (store.usage().num_jobs, store.usage().num_metrics) == (2, 1)


def test_jobs_are_listed_by_kind_and_status(store: Store) -> None:
    a, b = _new(store, kind="train"), _new(store, kind="evaluate")
    _lease(store)
    c = _new(store, kind="train")
    assert [job.id for job in store.list_jobs()] == [c, b, a]
    assert [job.id for job in store.list_jobs(kinds=["train"])] == [c, a]
    assert [job.id for job in store.list_jobs(statuses=["queued"], kinds=["train", "evaluate"])] == [c, b]
    assert [job.id for job in store.list_jobs(limit=1, offset=1)] == [b]
    assert store.list_jobs(kinds=[]) == [] and store.count_jobs(statuses=["running", "queued"]) == 3


def test_names_tags_and_notes_can_be_replaced(store: Store) -> None:
    job_id = _new(store, "old", tags=["x"], notes="n")
    store.annotate_job(job_id, name=NASTY)
    store.annotate_job(job_id, tags=[NASTY, "y"])
    job = store.get_job(job_id)
    assert (job.name, job.tags, job.notes) == (NASTY, (NASTY, "y"), "n")
    store.annotate_job(job_id, tags=[], notes="")
    assert (store.get_job(job_id).tags, store.get_job(job_id).notes) == ((), "")


def test_unknown_ids_are_named(store: Store) -> None:
    job_id = _new(store)
    _lease(store)
    calls: list[Callable[[], object]] = [
        lambda: store.get_job("nope"),
        lambda: store.heartbeat("nope", 1),
        lambda: store.add_metrics("nope", 1, []),
        lambda: store.drop_metrics_after("nope", 1, 0),
        lambda: store.put_items("nope", 1, {}),
        lambda: store.metrics("nope"),
        lambda: store.items("nope"),
        lambda: store.end_job("nope", 1, "finished"),
        lambda: store.request_job("nope", "stop"),
        lambda: store.resume_job("nope"),
        lambda: store.move_job("nope", None),
        lambda: store.annotate_job("nope", notes=""),
        lambda: store.delete_job("nope"),
        lambda: store.create_job(kind="k", name="n", config={}, parent_id="nope"),
        lambda: store.link_job(job_id, 1, version_id="nope"),
        lambda: store.link_job(job_id, 1, drafter_id="nope"),
        lambda: store.link_job(job_id, 1, dataset_id="nope"),
        lambda: store.get_dataset("nope"),
        lambda: store.annotate_dataset("nope", notes=""),
        lambda: store.delete_dataset("nope"),
        lambda: store.trash_runs(["nope"]),
        lambda: store.restore_runs(["nope"]),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match="nope"):
            call()
    assert store.lease_job("me", job_id="nope") is None and store.count_jobs() == 1


def test_datasets_are_one_per_kind_and_content(store: Store) -> None:
    version = register(store)

    def add(content_hash: str, name: str = "d", kind: Any = "prompts", **more: Any) -> str:
        return store.register_dataset(
            kind=kind, name=name, path="/data/x", content_hash=content_hash, num_rows=3, num_broken=1, **more
        ).id

    first = add("h1", NASTY, details={"rows": [NASTY]}, licence="MIT", version_id=version.id, lineage={"from": ["y"]})
    assert add("h1", "again", details={}) == first
    assert len({first, add("h2", details={}), add("h1", kind="answers", details={})}) == 3
    record = store.get_dataset(first)
    assert (record.name, record.details, record.lineage) == (NASTY, {"rows": [NASTY]}, {"from": ["y"]})
    assert (record.num_rows, record.num_broken, record.version_id, record.licence) == (3, 1, version.id, "MIT")
    assert len(store.list_datasets()) == 3 and [d.id for d in store.list_datasets("prompts", version.id)] == [first]
    store.annotate_dataset(first, tags=["t"], licence="CC0", path="/moved")
    changed = store.get_dataset(first)
    assert (changed.tags, changed.licence, changed.path, changed.name) == (("t",), "CC0", "/moved", NASTY)
    with pytest.raises(NotFoundError, match="no version nope"):
        add("h3", version_id="nope", details={})
    job_id = _new(store)
    _lease(store)
    store.link_job(job_id, 1, dataset_id=first)
    store.delete_dataset(first)
    assert store.get_job(job_id).dataset_id is None and len(store.list_datasets()) == 2
