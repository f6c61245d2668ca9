"""Wilcoxon's signed-rank test, exact, one-sided: whether paired differences lie above 0 by more than chance.

Under the hypothesis every difference is as likely to be positive as negative, whatever its size, so the law of the rank
sum is that of independent fair signs on the ranks that were seen: exact with ties too. Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FEWEST = 7  #: pairs below which no p-value can be as small as 0.01
MOST = 400  #: pairs that are looked at; more would only be slower


def p_greater(differences: Sequence[float]) -> float:
    """P(rank sum of the positive differences >= the one seen). Differences of 0 are left out; 1 without any others.

    Raises ValueError for a difference that is no finite number.
    """
    seen = np.asarray(differences, dtype=np.float64)
    if not np.isfinite(seen).all():
        raise ValueError("differences must be finite numbers")
    seen = seen[seen != 0][:MOST]
    if not len(seen):
        return 1.0
    ranks = doubled_ranks(np.abs(seen))
    total = int(ranks.sum())
    ways = np.zeros(total + 1)  # probability that the positive ranks add up to 0, 1, ... halves
    ways[0] = 1.0
    for rank in ranks:
        ways = 0.5 * ways
        ways[rank:] += ways[: total + 1 - rank].copy()
    return float(min(1.0, ways[int(ranks[seen > 0].sum()) :].sum()))


def doubled_ranks(sizes: np.ndarray) -> np.ndarray:
    """Twice the rank of every size from 1 up, ties sharing their mean: whole numbers."""
    ordered = np.sort(sizes)
    first, last = np.searchsorted(ordered, sizes, "left"), np.searchsorted(ordered, sizes, "right")
    doubled: np.ndarray = (first + 1 + last).astype(np.int64)
    return doubled
