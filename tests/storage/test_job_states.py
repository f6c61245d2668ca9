"""Any sequence of calls about jobs, made on the store and on a slow, obvious model of it, side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from storage import StaleAttemptError, Store, StoreError
from tests.storage.postgres import emptied

OPEN = {"queued", "running", "paused", "interrupted"}
ENDS = ["finished", "failed", "stopped", "paused", "interrupted"]
ATTEMPTS = st.sampled_from([0, 0, 0, 0, -1, 1])  # how far from the attempt that runs
FIGURES = st.dictionaries(st.sampled_from(["loss", "top1"]), st.integers(0, 9).map(float), max_size=2)


@dataclass
class Model:
    """What a job should be."""

    exclusive: str | None
    status: str = "queued"
    attempt: int = 0
    beat: int = 0
    requested: str | None = None
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    items: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: dict[int, dict[str, float]] = field(default_factory=dict)  # by a follower that asks for what is new
    last_seen: int = 0


class Jobs(RuleBasedStateMachine):
    """One store, several workers, one person."""

    ids = Bundle("ids")

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.models: dict[str, Model] = {}
        self.queue: list[str] = []

    def teardown(self) -> None:
        for id, model in self.models.items():
            if model.status == "running":
                self.store.end_job(id, model.attempt, "stopped")
            elif model.status in OPEN:
                self.store.request_job(id, "stop")
            self.store.delete_job(id)

    # The person

    @rule(target=ids, exclusive=st.sampled_from([None, None, "a", "b"]))
    def create(self, exclusive: str | None) -> Any:
        if self._taken(exclusive):
            with pytest.raises(StoreError, match="writes to"):
                self.store.create_job(kind="train", name="n", config={}, exclusive=exclusive)
            return multiple()
        id = self.store.create_job(kind="train", name="n", config={}, exclusive=exclusive).id
        self.models[id] = Model(exclusive)
        self.queue.append(id)
        return id

    @rule(id=ids, wanted=st.sampled_from(["stop", "pause"]))
    def request(self, id: str, wanted: Any) -> None:
        model, done = self.models[id], {"stop": "stopped", "pause": "paused"}[wanted]
        if model.status == done:
            self.store.request_job(id, wanted)
        elif model.status == "running":
            self.store.request_job(id, wanted)
            model.requested = "stop" if "stop" in (wanted, model.requested) else "pause"
        elif model.status == "queued" or (wanted == "stop" and model.status in OPEN):
            self.store.request_job(id, wanted)
            model.status = done
            self.queue = [other for other in self.queue if other != id]
        else:
            with pytest.raises(StoreError, match="nothing to"):
                self.store.request_job(id, wanted)

    @rule(id=ids, front=st.booleans())
    def resume(self, id: str, front: bool) -> None:
        model = self.models[id]
        if model.status in ("queued", "running", "finished") or self._taken(model.exclusive, id):
            with pytest.raises(StoreError):
                self.store.resume_job(id, front)
            return
        self.store.resume_job(id, front)
        model.status = "queued"
        self.queue.insert(0 if front else len(self.queue), id)

    @rule(id=ids, before=st.none() | ids)
    def move(self, id: str, before: str | None) -> None:
        if id not in self.queue or (before is not None and before not in self.queue):
            with pytest.raises(StoreError, match="not queued"):
                self.store.move_job(id, before)
            return
        self.store.move_job(id, before)
        if before != id:
            self.queue.remove(id)
            self.queue.insert(len(self.queue) if before is None else self.queue.index(before), id)

    @rule(target=ids, id=consumes(ids))
    def delete(self, id: str) -> Any:
        if self.models[id].status in OPEN:
            with pytest.raises(StoreError, match="stop it before"):
                self.store.delete_job(id)
            return id
        self.store.delete_job(id)
        del self.models[id]
        return multiple()

    # The workers and who watches them

    @rule(id=st.none() | ids, owner=st.sampled_from(["alive", "dead"]))
    def lease(self, id: str | None, owner: str) -> None:
        expected = next((other for other in self.queue if id in (None, other)), None)
        job = self.store.lease_job(owner, job_id=id)
        assert (job.id if job else None) == expected
        if job is not None:
            model = self.models[job.id]
            model.status, model.attempt, model.beat, model.requested = "running", model.attempt + 1, 0, None
            assert (job.attempt, job.owner, job.error) == (model.attempt, owner, None)
            self.queue.remove(job.id)

    def _may_write(self, id: str, off: int) -> bool:
        return self.models[id].status == "running" and off == 0

    @rule(id=ids, off=ATTEMPTS)
    def heartbeat(self, id: str, off: int) -> None:
        model = self.models[id]
        if self._may_write(id, off):
            assert self.store.heartbeat(id, model.attempt) == model.requested
            model.beat += 1
        else:
            with pytest.raises(StaleAttemptError):
                self.store.heartbeat(id, model.attempt + off)

    @rule(id=ids, off=ATTEMPTS, rows=st.lists(st.tuples(st.integers(0, 2), FIGURES), max_size=3))
    def add_metrics(self, id: str, off: int, rows: list[tuple[int, dict[str, float]]]) -> None:
        model = self.models[id]
        if self._may_write(id, off):
            self.store.add_metrics(id, model.attempt, rows)
            for step, figures in rows:
                model.metrics.setdefault(step, {}).update(figures)
        else:
            with pytest.raises(StaleAttemptError):
                self.store.add_metrics(id, model.attempt + off, rows)

    @rule(id=ids, off=ATTEMPTS, step=st.integers(-1, 2))
    def drop_metrics_after(self, id: str, off: int, step: int) -> None:
        model = self.models[id]
        if self._may_write(id, off):
            self.store.drop_metrics_after(id, model.attempt, step)
            model.metrics = {one: figures for one, figures in model.metrics.items() if one <= step}
        else:
            with pytest.raises(StaleAttemptError):
                self.store.drop_metrics_after(id, model.attempt + off, step)

    @rule(
        id=ids, off=ATTEMPTS, items=st.dictionaries(st.sampled_from("xyz"), st.fixed_dictionaries({"v": st.integers()}))
    )
    def put_items(self, id: str, off: int, items: dict[str, dict[str, int]]) -> None:
        model = self.models[id]
        if self._may_write(id, off):
            self.store.put_items(id, model.attempt, items)
            model.items |= items
        else:
            with pytest.raises(StaleAttemptError):
                self.store.put_items(id, model.attempt + off, items)

    @rule(id=ids, off=ATTEMPTS, status=st.sampled_from(ENDS))
    def end(self, id: str, off: int, status: Any) -> None:
        model = self.models[id]
        if self._may_write(id, off):
            self.store.end_job(id, model.attempt, status)
            model.status, model.requested = status, None
        else:
            with pytest.raises(StaleAttemptError):
                self.store.end_job(id, model.attempt + off, status)

    @rule()
    def interrupt_dead(self) -> None:
        dead = [job.id for job in self.store.list_jobs(statuses=["running"]) if job.owner == "dead"]
        assert self.store.interrupt_dead_jobs(lambda owner: owner != "dead") == sorted(dead)
        for id in dead:
            self.models[id].status, self.models[id].requested = "interrupted", None

    # What holds after every call

    def _taken(self, exclusive: str | None, by_other_than: str | None = None) -> bool:
        return exclusive is not None and any(
            model.exclusive == exclusive and model.status in OPEN and id != by_other_than
            for id, model in self.models.items()
        )

    @invariant()
    def the_jobs_are_what_they_should_be(self) -> None:
        jobs = {job.id: job for job in self.store.list_jobs()}
        assert jobs.keys() == self.models.keys()
        for id, model in self.models.items():
            job = jobs[id]
            assert (job.status, job.attempt, job.beat, job.requested) == (
                model.status, model.attempt, model.beat, model.requested,
            )  # fmt: skip
        assert [job.id for job in self.store.list_jobs(statuses=["queued"], order="queue")] == self.queue

    @invariant()
    def no_figure_is_lost_or_doubled(self) -> None:
        for id, model in self.models.items():
            rows = self.store.metrics(id)
            assert len(rows) == len(model.metrics) and {row.step: row.values for row in rows} == model.metrics
            assert {item.key: item.data for item in self.store.items(id)} == model.items
            for row in self.store.metrics(id, model.last_seen):
                assert row.seq > model.last_seen
                model.seen[row.step], model.last_seen = row.values, row.seq
            assert {step: model.seen[step] for step in model.metrics} == model.metrics


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def test_jobs_behave_as_their_model() -> None:
    with Store.open(":memory:") as store:
        run_machine(lambda: Jobs(store), settings=settings(max_examples=20, stateful_step_count=30, **SETTINGS))


def test_jobs_behave_as_their_model_on_a_server(postgres_url: str) -> None:
    with Store.open(emptied(postgres_url)) as store:
        run_machine(lambda: Jobs(store), settings=settings(max_examples=4, stateful_step_count=20, **SETTINGS))
