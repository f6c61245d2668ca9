"""What the pages ask about jobs: start, stop, pause, resume, fork, order, look up, read the log; and the same job as a
command or as a file.

The only thing pages use for jobs. Knows no Gradio and no HTTP, and nothing of what a job computes: kinds and their
configs come from `backend.jobs.kinds`, everything remembered from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from backend.errors import HeadwayError
from dashboard.presenters.validation import first_problem
from dashboard.services import Services

if TYPE_CHECKING:
    from backend.jobs.kinds import JobKind
    from storage import Store
    from storage.job_records import ItemRecord, JobOrder, JobRecord, JobStatus, MetricRecord

LOG_NAME = "log.txt"
TAIL_BYTES = 64 * 1024


class Jobs:
    """Jobs by id, through the store. Without a store every call raises HeadwayError."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # Starting

    def start(
        self,
        kind: str,
        config: Mapping[str, Any],
        *,
        name: str = "",
        device: str = "",
        tags: Sequence[str] = (),
        notes: str = "",
        parent_id: str | None = None,
    ) -> str:
        """Queues a job and returns its id. Raises HeadwayError or StoreError with one sentence when it can't be.

        device: whose turn it waits for; default: the one its config names, else the engine's own.
        """
        made = _kind(kind).settled(self.check(kind, config))
        job = self._store.create_job(
            kind=kind,
            name=name or _kind(kind).summary(made),
            config=made.model_dump(mode="json"),
            device=device or getattr(made, "device", None) or "auto",
            exclusive=_kind(kind).exclusive(made),
            parent_id=parent_id,
            tags=tuple(tags),
            notes=notes,
        )
        self._wake_engine()
        return str(job.id)

    def fork(self, job_id: str, changes: Mapping[str, Any], *, name: str = "") -> str:
        """Queues a job with the config of another one and some changes; it remembers whom it came from."""
        parent = self.get(job_id)
        from backend.jobs.fork import forked_config

        config = forked_config(parent, changes)
        device = "" if "device" in changes else parent.device
        return self.start(parent.kind, config, name=name, device=device, parent_id=parent.id)

    def check(self, kind: str, config: Mapping[str, Any]) -> BaseModel:
        """The typed config. Raises HeadwayError with one sentence: which field, and what it has to be."""
        try:
            return _kind(kind).config.model_validate(dict(config))
        except ValidationError as error:
            raise HeadwayError(first_problem(error)) from None

    # While it waits and runs

    def stop(self, job_id: str) -> None:
        """A running job ends at its next checkpoint, a waiting one at once; what it made so far stays."""
        self._store.request_job(job_id, "stop")

    def pause(self, job_id: str) -> None:
        """Like stop, but meant to go on."""
        self._store.request_job(job_id, "pause")

    def resume(self, job_id: str, front: bool = False) -> None:
        """Back into the queue, from the last checkpoint."""
        self._store.resume_job(job_id, front=front)
        self._wake_engine()

    def move(self, job_id: str, before: str | None) -> None:
        """Another place in the queue: before that job, or to the end."""
        self._store.move_job(job_id, before)

    def annotate(self, job_id: str, **changes: Any) -> None:
        """Name, tags or notes."""
        self._store.annotate_job(job_id, **changes)

    def delete(self, job_id: str) -> None:
        """Forgets a job that is over, with its metrics and its log; what it wrote elsewhere stays."""
        self._store.delete_job(job_id)

    # Looking

    def get(self, job_id: str) -> JobRecord:
        """Raises StoreError for an unknown id."""
        return self._store.get_job(job_id)

    def list(
        self,
        *,
        kinds: Sequence[str] | None = None,
        statuses: Sequence[JobStatus] | None = None,
        order: JobOrder = "newest",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[JobRecord]:
        """One page of the jobs, the newest first or, with order "queue", in the order of the queue."""
        if self._services.store is None:
            return ()
        return self._store.list_jobs(kinds=kinds, statuses=statuses, order=order, limit=limit, offset=offset)

    def metrics(self, job_id: str, after_seq: int = 0, limit: int | None = None) -> Sequence[MetricRecord]:
        """Metric rows written after the write `after_seq`."""
        return self._store.metrics(job_id, after_seq=after_seq, limit=limit)

    def items(self, job_id: str, after_seq: int = 0) -> Sequence[ItemRecord]:
        """Results of independent parts written after the write `after_seq`."""
        return self._store.items(job_id, after_seq=after_seq)

    def folder(self, job_id: str) -> Path:
        """Where the job keeps its log and checkpoints."""
        if self._services.places is None:
            raise HeadwayError("This dashboard was started without a home folder, so it has no jobs' files.")
        if not job_id.isalnum():
            raise HeadwayError(f"“{job_id[:40]}” is no job's id.")
        return self._services.places.jobs / job_id

    def kept_steps(self, job_id: str) -> Sequence[int]:
        """The steps whose weights a training keeps, so that another one can start from them; ascending."""
        from backend.jobs.fork import run_folder
        from backend.training.kept import kept_steps

        if self._services.places is None:
            return ()
        return kept_steps(run_folder(self.get(job_id), self._services.places))

    def log_tail(self, job_id: str, max_bytes: int = TAIL_BYTES) -> str:
        """The end of the job's log, from a line's start; empty while there is none."""
        text, _ = self.log_since(job_id, None, max_bytes)
        return text

    def log_since(self, job_id: str, offset: int | None, max_bytes: int = TAIL_BYTES) -> tuple[str, int]:
        """Whole lines of the log from byte `offset` on (None: the last `max_bytes`), and the byte to go on from."""
        path = self.folder(job_id) / LOG_NAME
        try:
            size = path.stat().st_size
            start = max(0, size - max_bytes) if offset is None or offset > size else offset
            with path.open("rb") as file:
                file.seek(start)
                content = file.read(max_bytes)
        except OSError:
            return "", offset or 0
        whole = content.rfind(b"\n") + 1 or (len(content) if len(content) == max_bytes else 0)
        content = content[:whole]
        end = start + whole
        if offset is None and start > 0:
            content = content[content.find(b"\n") + 1 :]
        return content.decode("utf-8", "replace"), end

    # The same without the page

    def command(self, kind: str, config: Mapping[str, Any]) -> str:
        """The command line that does the same."""
        from backend.jobs.as_text import as_command

        return as_command(kind, self.check(kind, config))

    def yaml(self, kind: str, config: Mapping[str, Any]) -> str:
        """The file that `--config` takes for the same."""
        from backend.jobs.as_text import as_yaml

        return as_yaml(kind, self.check(kind, config))

    def _wake_engine(self) -> None:
        # Only saves the queue's next look a moment: the job is stored, so an engine that is away finds it later.
        with suppress(HeadwayError):
            self._services.engine.poke()

    @property
    def _store(self) -> Store:
        if self._services.store is None:
            raise HeadwayError("This dashboard was started without a store, so it keeps no jobs.")
        return self._services.store


def _kind(kind: str) -> JobKind:
    from backend.jobs.kinds import JOB_KINDS

    if kind not in JOB_KINDS:
        raise HeadwayError(f"There is no kind of job named “{kind}”; there are: {', '.join(sorted(JOB_KINDS))}.")
    return JOB_KINDS[kind]
