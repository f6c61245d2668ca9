"""Counts and times of one answer: what an evaluation keeps of every prompt and configuration.

Steps of a batch are shared by the rows that are open in them, so each row is charged its part of a step: the parts of
all answers add up to the time that passed, whatever the batch. Knows records and numbers; no drafter, no store.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from backend.analysis.repetition import repeated_share
from backend.analysis.speed import Totals
from backend.analysis.token_classes import Classify, class_counts
from backend.decoding.records import DecodeResult, PrefillTrace, StepTrace

#: Fields that differ from one measurement to the next; everything else is determined by the configuration.
TIMES = ("prefill_ms", "draft_ms", "verify_ms", "other_ms", "row_ms")


@dataclass(frozen=True)
class PromptCounts:
    """One prompt answered in one configuration. num_tokens = 1 + num_steps + num_accepted - num_cut.

    Args:
        num_repeated: tokens inside repeated 8-grams, see analysis/repetition.py.
        digest: of the answer's tokens: equal digests are equal answers.
        draft_ms, verify_ms, other_ms: this answer's part of the time of its steps (all of it with one row).
        row_ms: the whole time of its steps: how long the asker waited, prefill not counted.
        right: whether the answer is the one that the prompt file gives; None where it gives none.
        tried_by_class, accepted_by_class: counts by class of token, see analysis/token_classes.py; None where they
            were not taken.
    """

    prompt: str
    category: str
    prompt_tokens: int
    num_tokens: int
    num_steps: int
    num_drafted: int
    num_accepted: int
    num_cut: int
    accepted_per_depth: tuple[int, ...]
    drafted_per_depth: tuple[int, ...]
    num_repeated: int
    digest: str
    finish_reason: str
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    other_ms: float
    row_ms: float
    right: bool | None = None
    tried_by_class: tuple[int, ...] | None = None
    accepted_by_class: tuple[int, ...] | None = None

    @property
    def decode_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.other_ms

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def counts_from_dict(data: Mapping[str, Any]) -> PromptCounts:
    """Back from JSON; unknown keys of a newer Headway are ignored, keys with a default may be missing in what an older
    one wrote.

    Raises KeyError for any other key that is missing.
    """
    newer = {field.name for field in fields(PromptCounts) if field.default is not MISSING}
    values = {field.name: data[field.name] for field in fields(PromptCounts) if field.name not in newer}
    values |= {name: data.get(name) for name in newer}
    for name in ("accepted_per_depth", "drafted_per_depth", "tried_by_class", "accepted_by_class"):
        values[name] = None if values[name] is None else tuple(values[name])
    return PromptCounts(**values)


@dataclass
class _Shares:
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    other_ms: float = 0.0
    row_ms: float = 0.0

    def add(self, step: StepTrace, rows: int) -> None:
        self.draft_ms += step.draft_ms / rows
        self.verify_ms += step.verify_ms / rows
        self.other_ms += (step.step_ms - step.draft_ms - step.verify_ms) / rows
        self.row_ms += step.step_ms


def prompt_counts(
    records: Iterable[PrefillTrace | StepTrace | DecodeResult],
    prompts: Mapping[int, tuple[str, str]],
    wanted: Mapping[int, str] | None = None,
    classify: Classify | None = None,
) -> list[PromptCounts]:
    """The answers in a stream of records of one `decode`, in the order they ended; cancelled ones are left out.

    `prompts` maps a row's number to (question id, category), `wanted` to the answer that its file gives: an answer is
    right when it is the same but for white space around it. `classify` gives the class of each token of an answer; with
    it drafts are counted by class too.
    """
    shares: dict[int, _Shares] = defaultdict(_Shares)
    step: list[
        StepTrace
    ] = []  # the rows of the step at hand; it is over when a row comes again or something else comes
    found = []
    steps: dict[int, list[StepTrace]] = defaultdict(list)  # of the open rows, for counts by class

    def settle() -> None:
        for one in step:
            shares[one.row].add(one, len(step))
        step.clear()

    for record in records:
        if isinstance(record, StepTrace):
            if any(one.row == record.row for one in step):
                settle()
            step.append(record)
            if classify is not None:
                steps[record.row].append(record)
            continue
        settle()
        if isinstance(record, DecodeResult) and record.finish_reason != "cancelled":
            made = _counts(record, shares.pop(record.row, _Shares()), *prompts[record.row])
            if wanted is not None and record.row in wanted:
                made = replace(made, right=record.text.strip() == wanted[record.row].strip())
            if classify is not None:
                counts = class_counts(steps.pop(record.row, []), classify(record.tokens))
                made = replace(made, tried_by_class=counts.tried, accepted_by_class=counts.accepted)
            found.append(made)
    return found


def _counts(result: DecodeResult, shares: _Shares, prompt: str, category: str) -> PromptCounts:
    return PromptCounts(
        prompt=prompt,
        category=category,
        prompt_tokens=result.prompt_tokens,
        num_tokens=len(result.tokens),
        num_steps=result.num_steps,
        num_drafted=result.num_drafted,
        num_accepted=result.num_accepted,
        num_cut=result.num_cut,
        accepted_per_depth=tuple(result.accepted_per_depth),
        drafted_per_depth=tuple(result.drafted_per_depth),
        num_repeated=round(repeated_share(result.tokens) * len(result.tokens)),
        digest=hashlib.sha256(json.dumps(result.tokens).encode()).hexdigest()[:16],
        finish_reason=result.finish_reason,
        prefill_ms=result.prefill_ms,
        **asdict(shares),
    )


def totals_of(answers: Iterable[PromptCounts]) -> Totals:
    """Sums over answers; the first token of each belongs to prefill and is left out."""
    listed = list(answers)
    return Totals(
        tokens=sum(a.num_tokens - 1 for a in listed),
        steps=sum(a.num_steps for a in listed),
        accepted=sum(a.num_accepted for a in listed),
        drafted=sum(a.num_drafted for a in listed),
        draft_ms=sum(a.draft_ms for a in listed),
        verify_ms=sum(a.verify_ms for a in listed),
        other_ms=sum(a.other_ms for a in listed),
    )


def add_depths(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Counts per depth, added up; shorter rows count nothing at the depths they lack."""
    listed = list(rows)
    return tuple(sum(row[d] for row in listed if d < len(row)) for d in range(max(map(len, listed), default=0)))
