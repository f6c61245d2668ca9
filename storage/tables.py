"""The tables of the store. Nothing outside `storage` sees these classes; callers get `records`.

Knows how things are kept, not what they mean to a model. Every change here needs a migration (a test compares the two).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, MetaData, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from storage.columns import ExactString, ExactText, JsonText, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
ID = ExactString(32)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class Version(Base):
    """One frozen target. The id hashes the five identity columns, so it is unique although two may be NULL."""

    __tablename__ = "versions"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    label: Mapped[str] = mapped_column(ExactText)
    weights_id: Mapped[str] = mapped_column(ExactString(128), index=True)
    adapter_id: Mapped[str | None] = mapped_column(ExactString(128))
    quantisation: Mapped[str | None] = mapped_column(ExactString(128))
    tokenizer_id: Mapped[str] = mapped_column(ExactString(128))
    template_id: Mapped[str] = mapped_column(ExactString(128))
    source: Mapped[str] = mapped_column(ExactText)
    model_type: Mapped[str] = mapped_column(ExactString(64))
    num_parameters: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    notes: Mapped[str] = mapped_column(ExactText)
    details: Mapped[dict[str, Any]] = mapped_column(JsonText)
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("versions.id", ondelete="SET NULL"), index=True)
    tags: Mapped[list[str]] = mapped_column(JsonText, server_default="[]")


class Drafter(Base):
    """What proposes tokens for one version. The id is a hash of (weights_hash, version_id)."""

    __tablename__ = "drafters"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    family: Mapped[str] = mapped_column(ExactString(64))
    name: Mapped[str] = mapped_column(ExactText)
    path: Mapped[str] = mapped_column(ExactText)
    weights_hash: Mapped[str] = mapped_column(ExactString(128))
    version_id: Mapped[str] = mapped_column(ForeignKey("versions.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    config: Mapped[dict[str, Any]] = mapped_column(JsonText)
    lineage: Mapped[dict[str, Any]] = mapped_column(JsonText)


class DecodeRun(Base):
    """One prompt decoded once. Counts and times are NULL until the run ends.

    Wide columns stand last: SQLite reads a row from its start, so sorting ten thousand runs by a count
    does not touch the pages that hold their texts.
    """

    __tablename__ = "decode_runs"
    __table_args__ = (
        Index(None, "status", "id"),
        Index(None, "drafter_name", "id"),
        Index(None, "version_id", "id"),
        Index(None, "trashed_at", "id"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    status: Mapped[str] = mapped_column(ExactString(16))
    owner: Mapped[str] = mapped_column(ExactText)
    version_id: Mapped[str | None] = mapped_column(ForeignKey("versions.id", ondelete="SET NULL"))
    drafter_id: Mapped[str | None] = mapped_column(ForeignKey("drafters.id", ondelete="SET NULL"), index=True)
    drafter_name: Mapped[str] = mapped_column(ExactText)
    finish_reason: Mapped[str | None] = mapped_column(ExactString(64))
    contended: Mapped[bool]
    traces_pruned: Mapped[bool]
    trashed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    prompt_tokens: Mapped[int | None]
    num_tokens: Mapped[int | None]
    num_steps: Mapped[int | None]
    num_drafted: Mapped[int | None]
    num_accepted: Mapped[int | None]
    num_cut: Mapped[int | None]
    prefill_ms: Mapped[float | None]
    draft_ms: Mapped[float | None]
    verify_ms: Mapped[float | None]
    commit_ms: Mapped[float | None]
    overhead_ms: Mapped[float | None]
    wall_ms: Mapped[float | None]
    accepted_per_depth: Mapped[list[int] | None] = mapped_column(JsonText)
    drafted_per_depth: Mapped[list[int] | None] = mapped_column(JsonText)
    tags: Mapped[list[str]] = mapped_column(JsonText)
    settings: Mapped[dict[str, Any]] = mapped_column(JsonText)
    error: Mapped[str | None] = mapped_column(ExactText)
    notes: Mapped[str] = mapped_column(ExactText)
    prompt: Mapped[str] = mapped_column(ExactText)
    text: Mapped[str | None] = mapped_column(ExactText)
    tokens: Mapped[list[int] | None] = mapped_column(JsonText)
    messages: Mapped[list[dict[str, Any]] | None] = mapped_column(JsonText)


class TraceChunk(Base):
    """Up to 64 steps of a run in one blob (see `traces`). num_bytes stands before the blob, so sums never read it."""

    __tablename__ = "trace_chunks"

    run_id: Mapped[str] = mapped_column(ForeignKey("decode_runs.id", ondelete="CASCADE"), primary_key=True)
    first_step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    num_steps: Mapped[int]
    num_bytes: Mapped[int]
    blob: Mapped[bytes] = mapped_column(LargeBinary)


class RaceLane(Base):
    """Which run answered in a lane of a race, counted from 0. A race is its lanes and has no row of its own."""

    __tablename__ = "race_lanes"

    race_id: Mapped[str] = mapped_column(ID, primary_key=True)
    lane: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    run_id: Mapped[str] = mapped_column(ForeignKey("decode_runs.id", ondelete="CASCADE"), index=True, unique=True)


class Dataset(Base):
    """A file of prompts or of answers, by content. The id is a hash of (kind, content_hash)."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    kind: Mapped[str] = mapped_column(ExactString(32), index=True)
    name: Mapped[str] = mapped_column(ExactText)
    path: Mapped[str] = mapped_column(ExactText)
    content_hash: Mapped[str] = mapped_column(ExactString(128))
    num_rows: Mapped[int] = mapped_column(BigInteger)
    num_broken: Mapped[int] = mapped_column(BigInteger)
    version_id: Mapped[str | None] = mapped_column(ForeignKey("versions.id", ondelete="SET NULL"), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    licence: Mapped[str] = mapped_column(ExactText)
    tags: Mapped[list[str]] = mapped_column(JsonText)
    notes: Mapped[str] = mapped_column(ExactText)
    details: Mapped[dict[str, Any]] = mapped_column(JsonText)
    lineage: Mapped[dict[str, Any]] = mapped_column(JsonText)


# What may go on to write to its output; one such job for each place. The migrations spell the same condition out.
_OPEN_JOB = text("status IN ('queued', 'running', 'paused', 'interrupted')")


class Job(Base):
    """Work that outlives the page. `position` orders the queue, `last_seq` numbers what the job writes.

    Of the jobs that still may write to a place (`exclusive`) there is one; the partial index makes two processes that
    start the same work at once agree.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "status", "position", "id"),
        Index("ix_jobs_exclusive_open", "exclusive", unique=True, sqlite_where=_OPEN_JOB, postgresql_where=_OPEN_JOB),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    kind: Mapped[str] = mapped_column(ExactString(32))
    name: Mapped[str] = mapped_column(ExactText)
    status: Mapped[str] = mapped_column(ExactString(16))
    device: Mapped[str] = mapped_column(ExactString(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    position: Mapped[int] = mapped_column(BigInteger)
    attempt: Mapped[int]
    beat: Mapped[int] = mapped_column(BigInteger)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    owner: Mapped[str | None] = mapped_column(ExactText)
    requested: Mapped[str | None] = mapped_column(ExactString(16))
    exclusive: Mapped[str | None] = mapped_column(ExactText)
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"), index=True)
    version_id: Mapped[str | None] = mapped_column(ForeignKey("versions.id", ondelete="SET NULL"), index=True)
    drafter_id: Mapped[str | None] = mapped_column(ForeignKey("drafters.id", ondelete="SET NULL"), index=True)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    tags: Mapped[list[str]] = mapped_column(JsonText)
    progress: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    error: Mapped[str | None] = mapped_column(ExactText)
    notes: Mapped[str] = mapped_column(ExactText)
    config: Mapped[dict[str, Any]] = mapped_column(JsonText)
    result: Mapped[dict[str, Any] | None] = mapped_column(JsonText)


class JobMetric(Base):
    """The figures of one step of a job: one row a step, however often the step is done again."""

    __tablename__ = "job_metrics"
    __table_args__ = (Index(None, "job_id", "seq", unique=True),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger)
    figures: Mapped[dict[str, float]] = mapped_column(JsonText)  # `values` is a word of SQL


class JobItem(Base):
    """The result of one independent part of a job, by its key."""

    __tablename__ = "job_items"
    __table_args__ = (Index(None, "job_id", "seq", unique=True),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(ExactText, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]] = mapped_column(JsonText)
