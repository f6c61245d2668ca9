"""Pearson's chi-square for conditional laws with many small cells. Knows no models: counts in, p-values out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

MIN_EXPECTED = 5.0

Numbers = NDArray[Any]


def pooled(observed: Numbers, expected: Numbers) -> tuple[float, int]:
    """Chi-square statistic and degrees of freedom of one multinomial: counts observed [K], expected [K], of equal sums.

    Cells that expect less than 5 are pooled into one; if the pool still expects less than 5, the smallest other cell
    joins it. A cell that expects nothing but was seen makes the statistic infinite: pooling must not hide an impossible
    token.
    """
    if np.any(observed[expected == 0] > 0):
        return float("inf"), 1
    order = np.argsort(expected)
    expected, observed = expected[order], observed[order]
    small = int((expected < MIN_EXPECTED).sum())
    while 0 < small < len(expected) and expected[:small].sum() < MIN_EXPECTED:
        small += 1
    if small:
        expected = np.concatenate([[expected[:small].sum()], expected[small:]])
        observed = np.concatenate([[observed[:small].sum()], observed[small:]])
    usable = expected > 0
    return float(((observed - expected)[usable] ** 2 / expected[usable]).sum()), int(usable.sum()) - 1


def conditional_p_value(counts: Numbers, probs: Numbers) -> float:
    """p-value of counts [..., K] given laws probs [..., K]: every condition is one multinomial, their statistics are
    summed.

    The number of samples under each condition is taken as given, so the sum is a chi-square with the sum of the
    degrees.
    """
    counts, probs = counts.reshape(-1, counts.shape[-1]), probs.reshape(-1, probs.shape[-1])
    tests = [pooled(row, row.sum() * p) for row, p in zip(counts, probs, strict=True) if row.sum()]
    return float(chi2.sf(sum(t[0] for t in tests), sum(t[1] for t in tests)))
