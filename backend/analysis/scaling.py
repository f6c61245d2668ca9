"""How many more training tokens another step of acceptance takes: a curve through a few cheap runs, with its doubt.

The curve is a power law towards a ceiling, the form that losses of language models follow with the size of their data
(Hestness et al., arXiv 1712.00409; Kaplan et al., arXiv 2001.08361):

    L(n) = C - b n^-alpha        C: ceiling, b > 0, alpha in [0.05, 1]

With three to five runs its three parameters are never certain, so none is chosen: for every alpha of a grid, C and b
have a normal posterior under the runs' own errors (flat priors), alphas are weighed by how well they explain the runs,
and curves are drawn from all of it (seeded). Every answer is what those curves say: a median, and what 95 % of them lie
between. A gain that some curves never reach says how many. Knows numbers; no drafter, no store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FEWEST: Final = 3  #: different amounts of data
DRAWS: Final = 20_000
ALPHAS: Final = np.linspace(0.05, 1.0, 20)
LEVEL: Final = 0.95


@dataclass(frozen=True)
class Run:
    """One training: tokens it learned from, the acceptance length it reached on held-out prompts, and that length's
    standard error.
    """

    tokens: float
    acceptance_length: float
    error: float


@dataclass(frozen=True)
class Span:
    """A median with the bounds that 95 % of the curves lie between; infinite where a curve never gets there."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Curves that the runs allow. `misfit`: how much worse than its errors the best of them explains the runs, as
    chi-square a degree of freedom (None with three runs); above 3 the runs differ in more than their data.
    """

    runs: tuple[Run, ...]
    ceilings: Numbers
    slopes: Numbers
    alphas: Numbers
    misfit: float | None

    def at(self, tokens: float) -> Span:
        """The acceptance length with so many tokens."""
        return _span(self.ceilings - self.slopes * tokens**-self.alphas)

    @property
    def ceiling(self) -> Span:
        """Where more data leads in the end."""
        return _span(self.ceilings)

    def more_for(self, gain: float) -> tuple[Span, float]:
        """(tokens beyond the largest run's that add `gain` to the acceptance length, share of curves that never do).

        What is added to is each curve's own length at the largest run. Raises ValueError for a gain of 0 or less.
        """
        if not gain > 0:
            raise ValueError(f"a gain is above 0, but it is {gain}")
        most = max(run.tokens for run in self.runs)
        left = self.slopes * most**-self.alphas - gain  # distance to the ceiling at the place that is looked for
        reached = left > 0
        needed = np.full(len(left), math.inf)
        with np.errstate(over="ignore"):
            needed[reached] = (self.slopes[reached] / left[reached]) ** (1 / self.alphas[reached]) - most
        return _span(needed), float(1 - reached.mean())


def fit(runs: Sequence[Run], seed: int = 0) -> Fit:
    """Raises ValueError for fewer than FEWEST different amounts of data, and for numbers that can't be."""
    if any(not (run.tokens > 0 and run.acceptance_length >= 1 and run.error > 0) for run in runs):
        raise ValueError("a run has tokens above 0, an acceptance length of at least 1 and an error above 0")
    amounts = len({run.tokens for run in runs})
    if amounts < FEWEST:
        raise ValueError(f"a curve needs {FEWEST} runs with different amounts of data, and there are {amounts}")
    tokens = np.array([run.tokens for run in runs])
    lengths = np.array([run.acceptance_length for run in runs])
    errors = np.array([run.error for run in runs])
    unit = tokens.max()  # powers of numbers near 1 keep the equations well conditioned
    solved = [_solve(tokens / unit, lengths, errors, alpha) for alpha in ALPHAS]
    best = min(one.chi_square for one in solved)
    weights = np.array([math.exp(-0.5 * (one.chi_square - best)) * math.sqrt(one.determinant) for one in solved])
    random = np.random.default_rng(seed)
    picked = random.choice(len(ALPHAS), size=DRAWS, p=weights / weights.sum())
    drawn = np.empty((DRAWS, 2))
    for place, one in enumerate(solved):
        here = picked == place
        drawn[here] = random.multivariate_normal(one.mean, one.covariance, size=int(here.sum()))
    alphas = ALPHAS[picked]
    kept = (drawn[:, 1] > 0) & (drawn[:, 0] > 1)
    if kept.mean() < 0.05:
        raise ValueError("more data did not raise the acceptance length in these runs, so no curve leads upwards")
    free = len(runs) - 3
    slopes = drawn[kept, 1] * unit ** alphas[kept]
    return Fit(tuple(runs), drawn[kept, 0], slopes, alphas[kept], best / free if free > 0 else None)


@dataclass(frozen=True)
class _Solved:
    """C and b for one alpha: their normal posterior."""

    mean: Numbers
    covariance: Numbers
    chi_square: float
    determinant: float


def _solve(tokens: Numbers, lengths: Numbers, errors: Numbers, alpha: float) -> _Solved:
    design = np.stack([np.ones_like(tokens), -(tokens**-alpha)], axis=1) / errors[:, None]
    covariance: Numbers = np.linalg.inv(design.T @ design).astype(np.float64)
    mean = covariance @ design.T @ (lengths / errors)
    residual = lengths / errors - design @ mean
    return _Solved(mean, covariance, float(residual @ residual), float(np.linalg.det(covariance)))


def _span(values: Numbers) -> Span:
    ends = ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
    # Linear interpolation between a finite and an infinite value is no number; the nearest one is.
    low, median, high = np.quantile(values, ends, method="nearest")
    return Span(float(median), float(low), float(high))
