"""What the store hands out: frozen records, detached from the database.

Knows no SQL. Counts are stored, ratios are computed when shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

RunStatus = Literal["queued", "running", "finished", "cancelled", "failed", "interrupted"]
RunOrder = Literal["newest", "oldest", "most_tokens", "longest", "best_acceptance"]
OPEN_STATUSES: tuple[RunStatus, ...] = ("queued", "running")


@dataclass(frozen=True, kw_only=True)
class VersionIdentity:
    """What makes a target the same target: five hashes or names, two of them optional."""

    weights_id: str
    tokenizer_id: str
    template_id: str
    adapter_id: str | None = None
    quantisation: str | None = None


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """One frozen target. `source` is the folder or hub id it was first loaded from."""

    id: str
    label: str
    identity: VersionIdentity
    source: str
    model_type: str
    num_parameters: int
    created_at: datetime
    notes: str
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DrafterRecord:
    """A drafter made for one version. `lineage` says what it was trained on and from."""

    id: str
    family: str
    name: str
    path: str
    weights_hash: str
    version_id: str
    config: dict[str, Any]
    lineage: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a decode run gives at its end. Per-depth lists start at depth 1 and hold numbers of steps."""

    text: str
    tokens: tuple[int, ...]  # ids of the output, the first of them from prefill
    finish_reason: str | None
    prompt_tokens: int
    num_tokens: int
    num_steps: int
    num_drafted: int
    num_accepted: int
    num_cut: int
    accepted_per_depth: tuple[int, ...]
    drafted_per_depth: tuple[int, ...]
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    commit_ms: float
    overhead_ms: float
    wall_ms: float
    contended: bool = False  # measured without the device lease: never feeds a recommendation


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One line of the table of runs. Counts and times are None until the run ends."""

    id: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    status: RunStatus
    version_id: str | None
    version_label: str | None
    drafter_id: str | None
    drafter_name: str
    prompt_start: str  # the first 200 characters
    finish_reason: str | None
    error: str | None
    contended: bool
    traces_pruned: bool
    prompt_tokens: int | None
    num_tokens: int | None
    num_steps: int | None
    num_drafted: int | None
    num_accepted: int | None
    num_cut: int | None
    accepted_per_depth: tuple[int, ...] | None
    drafted_per_depth: tuple[int, ...] | None
    prefill_ms: float | None
    draft_ms: float | None
    verify_ms: float | None
    commit_ms: float | None
    overhead_ms: float | None
    wall_ms: float | None
    tags: tuple[str, ...]
    settings: dict[str, Any]  # the conditions: rule, temperature, tree, seed, device, dtype, package versions …

    @property
    def acceptance_length(self) -> float | None:
        """Accepted tokens + 1 (the bonus token), averaged over steps; None without steps."""
        if not self.num_steps or self.num_accepted is None:
            return None
        return 1 + self.num_accepted / self.num_steps


@dataclass(frozen=True, kw_only=True)
class RunRecord(RunSummary):
    """A run with everything but its steps."""

    owner: str
    prompt: str
    messages: list[dict[str, Any]] | None
    text: str | None
    tokens: tuple[int, ...] | None
    notes: str


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs to list; None means any.

    `search` is looked for in prompt, output, notes, tags and drafter name (a to z in either case), or is an id.
    """

    status: RunStatus | None = None
    drafter: str | None = None  # the drafter's id or name
    version_id: str | None = None
    search: str | None = None


@dataclass(frozen=True, kw_only=True)
class StoreUsage:
    """How much the store holds. `file_bytes` is None where the database is not a file of this machine."""

    num_runs: int
    num_traced_runs: int
    trace_bytes: int
    file_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class ArtifactRecord:
    """A file kept by content."""

    sha256: str
    num_bytes: int
    path: Path = field(compare=False)
