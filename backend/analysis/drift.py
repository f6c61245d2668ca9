"""What an approximate rule does to the output: how far the law of the emitted tokens is from the target's own.

Typical acceptance (backend/acceptance/typical.py) decides by thresholds and not by chance. So, given everything before
a position, two things can happen there. A drafted token x was accepted: then x is emitted with certainty, and against
the target's law p

    total variation = 1 - p(x)        KL(emitted || target) = -log p(x)        (a point mass against p)

Or nothing was accepted, and the token is drawn from p: both are 0. These are the exact laws for each prefix, not
estimates from many samples; what is averaged is only which prefixes come up. An exact rule draws from p everywhere, so
both are 0 for it whatever it accepts. Beside them stand numbers that compare whole answers: how many different n-grams
they have, and how much answers from different seeds differ.

Knows numbers and token ids; no model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from backend.decoding.records import DecodeResult, PrefillTrace, StepTrace


@dataclass(frozen=True)
class Drift:
    """Sums over the positions that came out of steps (the first token, from prefill, is exact and left out).

    kl in nats; `negative_log_p`: sum of -log p of what was emitted, at the temperature of the sampling.
    """

    positions: int = 0
    accepted: int = 0
    total_variation: float = 0.0
    kl: float = 0.0
    negative_log_p: float = 0.0

    def __add__(self, other: Drift) -> Drift:
        return Drift(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))  # type: ignore[arg-type]

    def _values(self) -> tuple[float, ...]:
        return (self.positions, self.accepted, self.total_variation, self.kl, self.negative_log_p)

    @property
    def mean_total_variation(self) -> float | None:
        return self.total_variation / self.positions if self.positions else None

    @property
    def mean_kl(self) -> float | None:
        return self.kl / self.positions if self.positions else None


def drift_of(log_p: Sequence[float], accepted: Sequence[bool], exact: bool) -> Drift:
    """The drift of one answer. log_p: log p(token) at each emitted position; accepted: whether it was drafted.

    Raises ValueError when the two differ in length.
    """
    if len(log_p) != len(accepted):
        raise ValueError(f"{len(log_p)} positions have {len(accepted)} flags")
    points = [] if exact else [value for value, drafted in zip(log_p, accepted, strict=True) if drafted]
    return Drift(
        positions=len(log_p),
        accepted=sum(accepted),
        total_variation=math.fsum(-math.expm1(value) for value in points),
        kl=-math.fsum(points),
        negative_log_p=-math.fsum(log_p),
    )


def accepted_flags(records: Iterable[PrefillTrace | StepTrace | DecodeResult]) -> dict[int, list[bool]]:
    """By row: whether each token that came out of a step was drafted (True) or the target's own, in order."""
    flags: dict[int, list[bool]] = {}
    for record in records:
        if isinstance(record, StepTrace):
            drafted = min(record.num_accepted, len(record.tokens))
            own = len(record.tokens) - drafted
            flags.setdefault(record.row, []).extend([True] * drafted + [False] * own)
    return flags


def distinct(answers: Iterable[Sequence[int]], n: int) -> float | None:
    """distinct-n (Li et al., 2016): different n-grams over all n-grams, of all answers together; None without any."""
    grams = [tuple(answer[i : i + n]) for answer in answers for i in range(len(answer) - n + 1)]
    return len(set(grams)) / len(grams) if grams else None


def diversity(samples: Iterable[Sequence[Sequence[int]]], n: int = 2) -> float | None:
    """How much answers to the same prompt from different seeds differ: 1 - shared n-grams over all n-grams (Jaccard),
    averaged over pairs and prompts. 0: always the same answer. None when no prompt has two answers.
    """
    found = []
    for answers in samples:
        grams = [{tuple(answer[i : i + n]) for i in range(len(answer) - n + 1)} for answer in answers]
        found += [1 - len(a & b) / len(a | b) for a, b in combinations(grams, 2) if a | b]
    return math.fsum(found) / len(found) if found else None


def perplexity(negative_log_p: float, positions: int) -> float | None:
    """exp of the mean -log p."""
    return math.exp(negative_log_p / positions) if positions else None
