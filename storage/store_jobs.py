"""The part of the store about jobs: queue, lease, states, and what jobs write. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import exc

from storage import job_rows, jobs
from storage.identifiers import new_id
from storage.job_records import (
    ItemRecord,
    JobEnd,
    JobOrder,
    JobRecord,
    JobRequest,
    JobStatus,
    MetricRecord,
)
from storage.owner import owner_is_alive
from storage.store_base import StoreBase
from storage.tables import Job


class JobStore(StoreBase):
    """Jobs, their metrics and their items."""

    def create_job(
        self,
        *,
        kind: str,
        name: str,
        config: dict[str, Any],
        device: str = "auto",
        exclusive: str | None = None,
        parent_id: str | None = None,
        tags: Sequence[str] = (),
        notes: str = "",
    ) -> JobRecord:
        """A new job at the end of the queue.

        exclusive: the place that no other open job may write to, such as the path of its output; StoreError names the
        other job. parent_id: the job this one goes on from.
        """
        row = Job(
            id=new_id(),
            kind=kind,
            name=name,
            status="queued",
            device=device,
            created_at=self._clock(),
            attempt=0,
            beat=0,
            last_seq=0,
            exclusive=exclusive,
            parent_id=parent_id,
            tags=list(tags),
            notes=notes,
            config=config,
        )
        with self._writing() as session:
            if parent_id is not None:
                jobs.get(session, parent_id)
            jobs.refuse_second(session, exclusive)
            row.position = jobs.last_position(session)
            try:
                with session.begin_nested():
                    session.add(row)
            except exc.IntegrityError:  # another process took the same place since we looked
                jobs.refuse_second(session, exclusive)
                raise
            return jobs.get(session, row.id)

    def lease_job(
        self,
        owner: str,
        *,
        job_id: str | None = None,
        kinds: Sequence[str] | None = None,
        devices: Sequence[str] | None = None,
    ) -> JobRecord | None:
        """queued -> running: the first waiting job (or this one, if it waits), or None. Of several callers one gets it.

        owner: `owner_token()` of the process that works on it. devices: only jobs that ask for one of them.
        """
        with self._writing() as session:
            return jobs.lease(session, owner, self._clock(), job_id, kinds, devices)

    def heartbeat(self, job_id: str, attempt: int, progress: dict[str, Any] | None = None) -> JobRequest | None:
        """Say that the worker lives, and how far it is; returns what the job was asked for: stop, pause or None."""
        with self._writing() as session:
            return jobs.heartbeat(session, job_id, attempt, progress)

    def add_metrics(self, job_id: str, attempt: int, rows: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Figures of steps, as (step, {name: value}). A step written again keeps its other figures."""
        with self._writing() as session:
            job_rows.add_metrics(session, job_id, attempt, rows)

    def drop_metrics_after(self, job_id: str, attempt: int, step: int) -> None:
        """Forget the figures of the steps after `step`: an attempt that goes on from a checkpoint does them again."""
        with self._writing() as session:
            job_rows.drop_metrics_after(session, job_id, attempt, step)

    def metrics(self, job_id: str, after_seq: int = 0, limit: int | None = None) -> list[MetricRecord]:
        """Figures written after number `after_seq`, in the order of writing: ask again with the last number seen."""
        with self._reading() as session:
            return job_rows.metrics(session, job_id, after_seq, limit)

    def put_items(self, job_id: str, attempt: int, items: Mapping[str, dict[str, Any]]) -> None:
        """Keep results of independent parts by key; a key that is there is replaced."""
        with self._writing() as session:
            job_rows.put_items(session, job_id, attempt, items)

    def items(self, job_id: str, after_seq: int = 0) -> list[ItemRecord]:
        """Results written after number `after_seq`, in the order of writing."""
        with self._reading() as session:
            return job_rows.items(session, job_id, after_seq)

    def end_job(
        self,
        job_id: str,
        attempt: int,
        status: JobEnd,
        *,
        result: dict[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        """running -> finished, failed, stopped, paused or interrupted. error: one sentence that says why."""
        with self._writing() as session:
            jobs.end(session, job_id, attempt, status, self._clock(), result, error)

    def interrupt_job(self, job_id: str, attempt: int, reason: str) -> None:
        """running -> interrupted, by whoever watches the worker; its later writes are refused."""
        self.end_job(job_id, attempt, "interrupted", error=reason)

    def interrupt_dead_jobs(self, is_alive: Callable[[str], bool] = owner_is_alive) -> list[str]:
        """running -> interrupted for the jobs of dead processes; called at start-up, returns their ids."""
        with self._writing() as session:
            return jobs.interrupt_dead(session, is_alive, self._clock())

    def request_job(self, job_id: str, wanted: JobRequest) -> None:
        """Ask a running job to stop or pause; done at once where nobody works on it. A stop outranks a pause."""
        with self._writing() as session:
            jobs.request(session, job_id, wanted, self._clock())

    def resume_job(self, job_id: str, front: bool = False) -> None:
        """paused, stopped, interrupted or failed -> queued, at the end of the queue or at its front."""
        with self._writing() as session:
            jobs.resume(session, job_id, front)

    def move_job(self, job_id: str, before: str | None) -> None:
        """Put a queued job before another queued one; None: at the end."""
        with self._writing() as session:
            jobs.move(session, job_id, before)

    def link_job(
        self,
        job_id: str,
        attempt: int,
        *,
        version_id: str | None = None,
        drafter_id: str | None = None,
        dataset_id: str | None = None,
    ) -> None:
        """Name the version, drafter or dataset that a running job works on or made; None changes nothing."""
        with self._writing() as session:
            jobs.link(session, job_id, attempt, version_id=version_id, drafter_id=drafter_id, dataset_id=dataset_id)

    def annotate_job(
        self, job_id: str, *, name: str | None = None, tags: Sequence[str] | None = None, notes: str | None = None
    ) -> None:
        """Replace a job's name, tags, notes."""
        with self._writing() as session:
            jobs.annotate(session, job_id, name, tags, notes)

    def delete_job(self, job_id: str) -> None:
        """Delete a job that is not open, with its metrics and items; its files stay for `db gc`."""
        with self._writing() as session:
            jobs.delete(session, job_id)

    def get_job(self, job_id: str) -> JobRecord:
        """One job by id."""
        with self._reading() as session:
            return jobs.get(session, job_id)

    def list_jobs(
        self,
        *,
        kinds: Sequence[str] | None = None,
        statuses: Sequence[JobStatus] | None = None,
        order: JobOrder = "newest",
        limit: int = 100,
        offset: int = 0,
    ) -> list[JobRecord]:
        """One page of the jobs, the newest first or in the order of the queue."""
        with self._reading() as session:
            return jobs.listed(session, kinds, statuses, order, limit, offset)

    def count_jobs(self, *, kinds: Sequence[str] | None = None, statuses: Sequence[JobStatus] | None = None) -> int:
        """How many jobs there are."""
        with self._reading() as session:
            return jobs.count(session, kinds, statuses)
