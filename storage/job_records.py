"""What the store hands out about jobs and datasets: frozen records, detached from the database.

Knows no SQL, and nothing of what a job does: config, progress, result and items are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

JobStatus = Literal["queued", "running", "paused", "interrupted", "stopped", "failed", "finished"]
JobEnd = Literal["finished", "failed", "stopped", "paused", "interrupted"]
JobRequest = Literal["stop", "pause"]
JobOrder = Literal["newest", "queue"]
DatasetKind = Literal["prompts", "answers"]

#: A job that may still write to its output. Stopped and failed jobs can be resumed too, but hold nothing meanwhile.
OPEN_JOB_STATUSES: tuple[JobStatus, ...] = ("queued", "running", "paused", "interrupted")


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One job. `attempt` counts the leases; `beat` counts the heartbeats of this attempt.

    started_at: when this attempt began. finished_at: when the last attempt ended; None while queued or running.
    requested: what a running job was asked for and has not done yet. exclusive: the place that no other open job may
    write to. position: the smaller, the earlier it is leased.
    """

    id: str
    kind: str
    name: str
    status: JobStatus
    config: dict[str, Any]
    device: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    position: int
    attempt: int
    beat: int
    owner: str | None
    requested: JobRequest | None
    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    error: str | None
    exclusive: str | None
    parent_id: str | None
    version_id: str | None
    drafter_id: str | None
    dataset_id: str | None
    tags: tuple[str, ...]
    notes: str

    @property
    def is_open(self) -> bool:
        """Whether the job may still write to its output."""
        return self.status in OPEN_JOB_STATUSES


@dataclass(frozen=True, kw_only=True)
class MetricRecord:
    """The figures of one step of a job. A step that is written again gets a new, higher `seq`."""

    seq: int
    step: int
    values: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class ItemRecord:
    """The result of one independent part of a job. A key that is written again gets a new, higher `seq`."""

    seq: int
    key: str
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """A file of prompts or answers: `num_rows` rows that can be used, `num_broken` that cannot.

    version_id: the target that gave the answers. lineage: what the rows were made from.
    """

    id: str
    kind: DatasetKind
    name: str
    path: str
    content_hash: str
    num_rows: int
    num_broken: int
    details: dict[str, Any]
    licence: str
    version_id: str | None
    lineage: dict[str, Any]
    created_at: datetime
    tags: tuple[str, ...]
    notes: str
