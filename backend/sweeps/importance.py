"""How much each knob has to do with a figure: the share of the figure's variance that the knob alone explains.

The *correlation ratio* in its adjusted form (epsilon squared, Kelley 1935): trials are grouped by the knob's value, a
range into a few groups of equal size, and the spread of the groups' means is held against the whole spread, less what
as many groups of noise would show. It sees a knob's own effect and none that appears only together with another's.
Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from backend.sweeps.knobs import Scalar

METHOD = "correlation ratio (adjusted): the share of variance that the knob alone explains"
MOST_GROUPS = 6  #: of a range
FEWEST_TRIALS = 4


def importances(
    rows: Sequence[Mapping[str, Scalar]], figures: Sequence[float], knobs: Sequence[str]
) -> dict[str, float]:
    """By knob, 0 to 1; {} with fewer than FEWEST_TRIALS trials or a figure that never changes.

    rows: the settings of each trial; one that lacks a knob stands in a group of its own.
    """
    seen = np.asarray(figures, dtype=np.float64)
    if len(seen) < FEWEST_TRIALS or not np.isfinite(seen).all() or np.ptp(seen) == 0:
        return {}
    return {name: explained(groups([row.get(name) for row in rows]), seen) for name in knobs}


def groups(values: Sequence[Scalar | None]) -> list[int]:
    """The group of every trial: by value, or for many different numbers by quantile."""
    kinds = list(dict.fromkeys(map(repr, values)))
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(kinds) <= MOST_GROUPS or len(numbers) < len(values):
        return [kinds.index(repr(value)) for value in values]
    edges = np.quantile(numbers, np.linspace(0, 1, MOST_GROUPS + 1)[1:-1])
    return [int(group) for group in np.searchsorted(edges, numbers, side="right")]


def explained(of_group: Sequence[int], figures: np.ndarray) -> float:
    """1 - (variance within groups / whole variance), both unbiased, and never below 0."""
    labels = np.asarray(of_group)
    kinds = np.unique(labels)
    if len(kinds) < 2 or len(kinds) >= len(figures):
        return 0.0
    within = sum(_spread(figures[labels == kind]) for kind in kinds)
    whole = _spread(figures)
    count = len(figures)
    return max(0.0, 1 - (within / (count - len(kinds))) / (whole / (count - 1)))


def _spread(figures: np.ndarray) -> float:
    return float(((figures - figures.mean()) ** 2).sum())
