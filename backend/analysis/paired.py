"""What one run has over another on the same prompts: intervals, tests and sizes of the difference, paired by prompt.

A figure is a ratio of sums over prompts: accepted + steps over steps is an acceptance length, tokens over seconds a
speed. Its difference is resampled with prompts drawn whole (bootstrap.py). Beside the interval stand Wilcoxon's
signed-rank test of the prompts' own ratios, which one long answer can't decide, and McNemar's test for what is right or
wrong. Knows arrays; nothing of what they count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from backend.analysis.bootstrap import LEVEL, Draws, Interval, Numbers, difference_interval, interval, ratio_draws

Floats = NDArray[np.float64]

ROUNDED = 9  #: digits of a prompt's ratio that count: equal counts are ties even where division rounds differently
ENUMERATED = 13  #: pairs up to which all ways to give them signs are looked at, which is exact with ties too


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of one run. `each`: [prompts] the prompts' own figures, nan where one has none; `draws`: [repeats] the
    figure with prompts resampled, the same prompts for all figures that are compared.
    """

    value: float | None
    draws: Draws
    each: Floats

    @property
    def interval(self) -> Interval | None:
        """Of 95 %; None with too few prompts."""
        return interval(self.draws, len(self.each)) if self.value is not None else None

    def over(self, other: Figure) -> Figure:
        """The quotient of two figures over the same prompts, as a speedup is one of speeds."""
        value = self.value / other.value if self.value is not None and other.value else None
        return Figure(value, _quotient(self.draws, other.draws), _quotient(self.each, other.each))


def ratio(numerators: Numbers, denominators: Numbers, name: str) -> Figure:
    """The figure sum(numerators) / sum(denominators); both [prompts]. `name` seeds the resampling."""
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    total = below.sum()
    value = float(above.sum() / total) if total else None
    return Figure(value, ratio_draws(above, below, name), _quotient(above, below))


def _quotient(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = above / below
    return np.where(np.isfinite(found), found, np.nan)


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's signed-rank test of paired differences, two-sided.

    Args:
        p: how often chance alone gives a rank sum as far from even; 1 where all pairs are equal.
        higher, lower, equal: numbers of pairs.
        effect: matched-pairs rank-biserial correlation (Kerby, 2014): the share of the rank sum that lies with higher
            pairs less the share with lower ones, -1 to 1; None where all pairs are equal.
        standardised: mean difference in standard deviations of the differences (Cohen's d_z); None where all are alike.
    """

    p: float
    higher: int
    lower: int
    equal: int
    effect: float | None
    standardised: float | None


@dataclass(frozen=True)
class Difference:
    """Second minus first. `change`: the same as a share of the first. Intervals are None with too few prompts."""

    value: float | None
    interval: Interval | None
    change: float | None
    change_interval: Interval | None
    test: SignedRank | None


@dataclass(frozen=True)
class McNemar:
    """McNemar's exact test, two-sided: of the prompts on which one run is right and the other wrong, is it more often
    the same run that is right than a fair coin would say?
    """

    p: float
    only_first: int
    only_second: int
    both: int
    neither: int


def difference(first: Figure, second: Figure, level: float = LEVEL) -> Difference:
    """How much higher the second figure is. Raises ValueError for runs with different numbers of prompts."""
    count = len(first.each)
    if count != len(second.each):
        raise ValueError(f"paired runs have the same prompts, got {count} and {len(second.each)}")
    value = second.value - first.value if first.value is not None and second.value is not None else None
    return Difference(
        value=value,
        interval=difference_interval(second.draws - first.draws, count, level) if value is not None else None,
        change=value / first.value if value is not None and first.value else None,
        change_interval=difference_interval(second.over(first).draws - 1, count, level) if value is not None else None,
        test=signed_rank(second.each - first.each),
    )


def signed_rank(differences: Numbers) -> SignedRank | None:
    """Pairs of which one is unknown (nan) are left out, equal pairs get no rank; None without any pair."""
    found = np.round(np.asarray(differences, np.float64), ROUNDED)
    known = found[~np.isnan(found)]
    if not len(known):
        return None
    seen = known[known != 0]
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    effect = None
    if len(seen):
        ranks = stats.rankdata(np.abs(seen))
        effect = float((ranks * np.sign(seen)).sum() / ranks.sum())
    return SignedRank(
        p=_wilcoxon(seen),
        higher=int((known > 0).sum()),
        lower=int((known < 0).sum()),
        equal=len(known) - len(seen),
        effect=effect,
        standardised=float(known.mean()) / spread if spread else None,
    )


def _wilcoxon(seen: Floats) -> float:
    """All signs enumerated for few pairs; else the normal law with its variance corrected for ties."""
    if len(seen) < 2:  # a single pair lies on one side, whatever is true
        return 1.0
    if len(seen) <= ENUMERATED:
        ranks = stats.rankdata(np.abs(seen))
        signs = 1 - 2 * ((np.arange(2 ** len(seen))[:, None] >> np.arange(len(seen))) & 1)  # [2^n, n], a row a way
        away = abs(float(ranks @ np.sign(seen)))
        return float((np.abs(signs @ ranks) >= away - 1e-9).mean())
    return float(stats.wilcoxon(seen, method="asymptotic", correction=True).pvalue)


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """Both [prompts]: whether the run was right. Raises ValueError for runs with different numbers of prompts."""
    if len(first) != len(second):
        raise ValueError(f"paired runs have the same prompts, got {len(first)} and {len(second)}")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    apart = only_first + only_second
    p = float(stats.binomtest(only_second, apart, 0.5).pvalue) if apart else 1.0
    return McNemar(p, only_first, only_second, int((first & second).sum()), int((~first & ~second).sum()))
