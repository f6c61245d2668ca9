"""Speedup and the identity that explains it.

    speedup = acceptance length / (v + c + o)        (Leviathan et al., arXiv 2211.17192, section 3)

v, c and o are the mean verification, drafting and remaining time of a step in units of a plain step. The identity is
exact when all terms come from the same run; shown beside a speedup it says where the time went. Knows records only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backend.decoding.records import DecodeResult


@dataclass(frozen=True)
class SpeedIdentity:
    """Terms in units of a plain step. `speedup` is measured, `explained` is what the terms give."""

    speedup: float
    acceptance_length: float
    verify: float
    draft: float
    overhead: float

    @property
    def explained(self) -> float:
        """acceptance_length / (verify + draft + overhead)."""
        return self.acceptance_length / (self.verify + self.draft + self.overhead)


@dataclass(frozen=True)
class Totals:
    """Sums over many results; ratios are taken last."""

    tokens: int
    steps: int
    accepted: int
    drafted: int
    draft_ms: float
    verify_ms: float
    other_ms: float

    @property
    def decode_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.other_ms

    @property
    def tokens_per_s(self) -> float:
        """Tokens that came out of steps, a second of steps."""
        return 1000 * self.tokens / self.decode_ms

    @property
    def acceptance_length(self) -> float:
        return 1 + self.accepted / self.steps


def totals(results: Iterable[DecodeResult]) -> Totals:
    """Add up results of one drafter; the first token of each belongs to prefill and is left out."""
    listed = list(results)
    return Totals(
        tokens=sum(len(r.tokens) - 1 for r in listed),
        steps=sum(r.num_steps for r in listed),
        accepted=sum(r.num_accepted for r in listed),
        drafted=sum(r.num_drafted for r in listed),
        draft_ms=sum(r.draft_ms for r in listed),
        verify_ms=sum(r.verify_ms for r in listed),
        other_ms=sum(r.commit_ms + r.overhead_ms for r in listed),
    )


def speed_identity(drafted: Totals, plain: Totals) -> SpeedIdentity:
    """The identity of a drafter against plain decoding of the same prompts in the same run.

    Raises ValueError when either side has no steps. Small differences between `speedup` and `explained` come from
    tokens cut at the end of answers, which were accepted but not kept.
    """
    if not drafted.steps or not plain.steps:
        raise ValueError(f"both sides need steps; got {drafted.steps} and {plain.steps}")
    unit = plain.decode_ms / plain.steps
    return SpeedIdentity(
        speedup=drafted.tokens_per_s / plain.tokens_per_s,
        acceptance_length=drafted.acceptance_length,
        verify=drafted.verify_ms / drafted.steps / unit,
        draft=drafted.draft_ms / drafted.steps / unit,
        overhead=drafted.other_ms / drafted.steps / unit,
    )


def conditional_acceptance(accepted_per_depth: Sequence[int], drafted_per_depth: Sequence[int]) -> list[float | None]:
    """Per depth: steps that accepted it / steps that accepted the depth before and drafted a child there."""
    return [a / d if d else None for a, d in zip(accepted_per_depth, drafted_per_depth, strict=True)]
