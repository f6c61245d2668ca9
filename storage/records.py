"""What the store hands out: frozen records, detached from the database.

Knows no SQL. Counts are stored, ratios are computed when shown.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    @classmethod
    def from_parts(cls, parts: Mapping[str, str]) -> VersionIdentity:
        """From names and hashes in which "none" stands for what there is none of; other names are left out."""
        adapter, quantisation = (None if parts[n] == "none" else parts[n] for n in ("adapter_id", "quantisation"))
        return cls(
            weights_id=parts["weights_id"],
            tokenizer_id=parts["tokenizer_id"],
            template_id=parts["template_id"],
            adapter_id=adapter,
            quantisation=quantisation,
        )

    def parts(self) -> dict[str, str]:
        """The inverse of `from_parts`."""
        return {name: "none" if value is None else value for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """One frozen target. `source` is the folder or hub id it was first loaded from, or was found at since.

    parent_id: the version it was made from, where Headway knows. tags: labels such as serving, each of which stands on
    one version at a time.
    """

    id: str
    label: str
    identity: VersionIdentity
    source: str
    model_type: str
    num_parameters: int
    created_at: datetime
    notes: str
    details: dict[str, Any]
    parent_id: str | None = None
    tags: tuple[str, ...] = ()


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
    trashed_at: datetime | None = None
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

    @property
    def decode_ms(self) -> float | None:
        """Time of all steps; prefill is not counted. None until the run ends."""
        parts = (self.draft_ms, self.verify_ms, self.commit_ms, self.overhead_ms)
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens that came out of steps over the time of the steps; the first token belongs to prefill."""
        return 1000 * (self.num_tokens - 1) / self.decode_ms if self.num_tokens and self.decode_ms else None


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
class RaceLane:
    """A lane of a race, counted from 0, and the run that answered in it."""

    lane: int
    run: RunSummary


@dataclass(frozen=True, kw_only=True)
class RaceRecord:
    """Runs that answered one prompt in turns. `lanes`: in their order; those whose run was deleted are missing."""

    id: str
    created_at: datetime
    lanes: tuple[RaceLane, ...]


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs to list; None means any.

    `search` is looked for in prompt, output, notes, tags and drafter name (a to z in either case), or is an id. `regex`
    is looked for in the same places, spelled as for Python's `re`; StoreError where it is none. `tags`: all of them.
    """

    status: RunStatus | None = None
    drafter: str | None = None  # the drafter's id or name
    version_id: str | None = None
    contended: bool | None = None
    search: str | None = None
    regex: str | None = None
    tags: tuple[str, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()  # (name, value): all of them stand in the run's settings, at any depth
    trashed: bool | None = False  # True: only what is in the waste basket; None: that too


@dataclass(frozen=True, kw_only=True)
class RunSort:
    """What runs are sorted by: a count, a time, `acceptance_length`, `tokens_per_s`, a moment or a name.

    Runs without the figure come last in either direction; equal ones are listed the newest first.
    """

    by: str
    descending: bool = True


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs that have something in common; `key` is None for those that lack it.

    num_measured: runs with counts. totals: sums of counts over them. acceptance_length, tokens_per_s: of all steps
    taken together, so a long run weighs more. means: of each figure, every run that has it weighing the same.
    """

    key: str | None
    num_runs: int
    num_measured: int
    totals: dict[str, int]
    acceptance_length: float | None
    tokens_per_s: float | None
    means: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class StoreUsage:
    """How much the store holds, runs in the waste basket included.

    file_bytes: of the database; None where it is not a file of this machine. folder_bytes: of the folders asked about.
    """

    num_runs: int
    num_trashed_runs: int
    num_traced_runs: int
    num_jobs: int
    num_metrics: int
    num_datasets: int
    trace_bytes: int
    file_bytes: int | None
    folder_bytes: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class ArtifactRecord:
    """A file kept by content."""

    sha256: str
    num_bytes: int
    path: Path = field(compare=False)
