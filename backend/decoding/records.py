"""The records that decoding yields: one type from the loop to the store and the browser.

Plain frozen dataclasses of numbers and strings, no tensors, so that they can be written as JSON, stored and replayed
without torch. They hold counts; ratios (acceptance length, tokens/s) are computed where they are shown, see
`DecodeResult`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any


class Detail(StrEnum):
    """How much a `StepTrace` carries. Benchmarks use counts, the Live page uses full."""

    COUNTS = "counts"  #: numbers and committed tokens only
    PATH = "path"  #: and the accepted columns
    FULL = "full"  #: and the whole tree with probabilities


@dataclass(frozen=True)
class TreeTrace:
    """The draft tree of one step, one entry a column; column 0 is the root. Padding is left out.

    Args:
        tokens, parents: token id and parent column (-1 for the root).
        pieces: the token's text as it would be shown (a part of a character shows as U+FFFD).
        verdicts: values of `acceptance.Verdict`: 0 not reached, 1 accepted, 2 rejected.
        draft_probs: what the drafter thought of the node; None where it had no opinion.
        target_probs: the target's probability of the node's token at its parent, after the logit processors; None for
            the root.
        scores, thresholds: what the rule compared with what; None where the node was not looked at, or where the logit
            it would show is that of a banned token (JSON has no infinity).
        best_tokens, best_pieces, best_probs: the target's own likeliest next token after each column.
        entropies: how unsure the target is after each column, in nats, after the logit processors; None in steps stored
            before it was measured.
    """

    tokens: list[int]
    parents: list[int]
    pieces: list[str]
    verdicts: list[int]
    draft_probs: list[float | None]
    target_probs: list[float | None]
    scores: list[float | None]
    thresholds: list[float | None]
    best_tokens: list[int]
    best_pieces: list[str]
    best_probs: list[float]
    entropies: list[float] | None = None


@dataclass(frozen=True)
class PrefillTrace:
    """The prompt was read and the first token came out of it. Not a step."""

    row: int
    prompt_tokens: int
    token: int
    text: str  #: text ready to be shown after the first token (may be empty in the middle of a character)
    prefill_ms: float

    kind: str = "prefill"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StepTrace:
    """One row's share of one step: a draft, a verification pass, a commit.

    Args:
        row: which sequence of the batch.
        step: 1, 2, ... within the sequence.
        num_drafted: real nodes of the row's tree (the root not counted).
        num_accepted: drafted tokens the rule accepted, before any cut.
        num_tried: depths at which a child was drafted under the accepted path: num_accepted, plus one when the last
            accepted node had children and none was taken. "Drafted at depth d" for the conditional acceptance means
            num_tried >= d.
        num_cut: accepted or bonus tokens thrown away because an end token, stop string or the limit came first.
        tokens: the tokens committed by this step, after the cut, at most num_accepted + 1.
        text: text that became ready to be shown.
        draft_ms, verify_ms, commit_ms: wall times of the step, shared by all rows of a batch.
        step_ms: the whole step, so that step_ms - draft_ms - verify_ms - commit_ms is the loop's own time.
        path: accepted columns from depth 1 down (detail path and full).
        tree: the drafted tree (detail full).
    """

    row: int
    step: int
    num_drafted: int
    num_accepted: int
    num_tried: int
    num_cut: int
    tokens: list[int]
    text: str
    draft_ms: float
    verify_ms: float
    commit_ms: float
    step_ms: float
    path: list[int] | None = None
    tree: TreeTrace | None = None

    kind: str = "step"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DecodeResult:
    """The whole of one sequence. len(tokens) = 1 + num_steps + num_accepted - num_cut.

    Args:
        text: the decoded answer without special tokens and without what follows a stop string.
        accepted_per_depth: entry d-1 counts the steps that accepted depth d.
        drafted_per_depth: entry d-1 counts the steps that accepted depth d-1 and drafted a child there.
        prefill_ms ... overhead_ms: sums over the sequence; steps shared by B rows count in full for each.
        finish_reason: eos, length, stop or cancelled.
    """

    row: int
    prompt_tokens: int
    tokens: list[int]
    text: str
    num_steps: int
    num_drafted: int
    num_accepted: int
    num_cut: int
    accepted_per_depth: list[int]
    drafted_per_depth: list[int]
    prefill_ms: float
    draft_ms: float
    verify_ms: float
    commit_ms: float
    overhead_ms: float
    finish_reason: str

    kind: str = "result"

    @property
    def decode_ms(self) -> float:
        """Wall time of all steps, prefill not counted."""
        return self.draft_ms + self.verify_ms + self.commit_ms + self.overhead_ms

    @property
    def acceptance_length(self) -> float | None:
        """(accepted + bonus) tokens a step; None without steps."""
        return 1 + self.num_accepted / self.num_steps if self.num_steps else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens that came out of steps over the time of the steps; the first token belongs to prefill."""
        return 1000 * (len(self.tokens) - 1) / self.decode_ms if self.num_steps else None

    @property
    def end_to_end_tokens_per_s(self) -> float | None:
        total = self.prefill_ms + self.decode_ms
        return 1000 * len(self.tokens) / total if total else None

    def to_dict(self) -> dict[str, Any]:
        """All fields and the three ratios, as the command line prints them."""
        ratios = ("acceptance_length", "tokens_per_s", "end_to_end_tokens_per_s")
        return asdict(self) | {name: getattr(self, name) for name in ratios}


def step_from_dict(data: dict[str, Any]) -> StepTrace:
    """A stored step, back as a record; unknown keys of a newer schema are ignored."""
    known = {field.name for field in fields(StepTrace)}
    plain = {key: value for key, value in data.items() if key in known}
    if plain.get("tree") is not None:
        plain["tree"] = TreeTrace(**plain["tree"])
    return StepTrace(**plain)
