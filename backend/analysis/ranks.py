"""Whether tokens follow the laws they should, told from the ranks they have: one test for many different laws.

At every position the target has a law of its own, and one token was emitted. The vocabulary is coarsened into cells by
rank: the target's likeliest token, its second, the third and fourth, and so on. The law says how likely each cell was;
what came is one cell. Under an exact rule the counts less what was expected are a sum of martingale differences, so
with their summed covariance S, Q = (observed - expected)' S^+ (observed - expected) is a chi-square for many positions,
however different the laws and however the text so far was chosen.

How many positions it takes: a shift of the cells' mean law c by d, of total variation t = |d|_1 / 2, gives Q a
noncentrality of n d' S^+ d >= n sum d_j^2 / c_j >= 4 n t^2 (S is at most that of one multinomial with the mean law;
then Cauchy-Schwarz). Knows no model: laws and tokens in, p-values out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2
from torch import Tensor

from backend.analysis.chi_square import MIN_EXPECTED

LAST_RANKS = (1, 2, 4, 8, 16, 64)  #: last rank of every cell but the last, which has the rest; ranks count from 1
NUM_CELLS = len(LAST_RANKS) + 1


@dataclass
class Tally:
    """Sums over positions: how many; cells seen and expected [K]; covariance of the difference [K, K]; `impossible`:
    tokens to which the law gives nothing at all.
    """

    positions: int = 0
    impossible: int = 0
    observed: NDArray[np.float64] = field(default_factory=lambda: np.zeros(NUM_CELLS))
    expected: NDArray[np.float64] = field(default_factory=lambda: np.zeros(NUM_CELLS))
    covariance: NDArray[np.float64] = field(default_factory=lambda: np.zeros((NUM_CELLS, NUM_CELLS)))

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.positions + other.positions,
            self.impossible + other.impossible,
            self.observed + other.observed,
            self.expected + other.expected,
            self.covariance + other.covariance,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "positions": self.positions,
            "impossible": self.impossible,
            "observed": self.observed.tolist(),
            "expected": self.expected.tolist(),
            "covariance": self.covariance.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Tally:
        arrays = {name: np.array(data[name]) for name in ("observed", "expected", "covariance")}
        return cls(int(data["positions"]), int(data["impossible"]), **arrays)

    @property
    def total_variation(self) -> float | None:
        """Of the counts, half of |observed - expected| a position; chance alone gives a little. None without any."""
        return float(np.abs(self.observed - self.expected).sum() / 2 / self.positions) if self.positions else None


def tally(laws: Tensor, tokens: Tensor) -> Tally:
    """laws float [n, V], each a distribution; tokens int64 [n], what was emitted under each."""
    if len(laws) == 0:
        return Tally()
    laws = laws.double()
    ordered, order = laws.sort(dim=-1, descending=True, stable=True)
    rank = (order == tokens[:, None]).int().argmax(dim=-1)  # from 0
    ends = [min(last, laws.shape[-1]) for last in (*LAST_RANKS, laws.shape[-1])]
    upto = torch.nn.functional.pad(ordered.cumsum(-1), (1, 0))[:, [0, *ends]]
    parts = upto.diff(dim=-1).clamp(min=0)
    cells = (parts / parts.sum(-1, keepdim=True)).numpy()  # [n, K]
    cell = np.searchsorted(np.array(LAST_RANKS), rank.numpy() + 1)
    observed = np.bincount(cell, minlength=NUM_CELLS).astype(np.float64)
    covariance = np.diag(cells.sum(0)) - cells.T @ cells
    impossible = int((laws.gather(1, tokens[:, None]) <= 0).sum())
    return Tally(len(tokens), impossible, observed, cells.sum(0), covariance)


def quadratic(found: Tally) -> tuple[float, int]:
    """(Q, degrees of freedom). Cells that expect fewer than 5 are joined with the next rarer ones; (inf, 1) when a
    token was emitted to which the law gives nothing.
    """
    if found.impossible:
        return math.inf, 1
    joining = _joined(found.expected)
    if len(joining) < 2:
        return 0.0, 0
    difference = joining @ (found.observed - found.expected)
    covariance = joining @ found.covariance @ joining.T
    kept = slice(0, -1)  # the last cell follows from the others
    solved = np.linalg.lstsq(covariance[kept, kept], difference[kept], rcond=1e-12)[0]
    return float(difference[kept] @ solved), len(joining) - 1


def _joined(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """[cells left, K] of zeros and ones: neighbouring cells are joined until each expects enough."""
    groups: list[list[int]] = []
    open_group: list[int] = []
    for cell in range(len(expected)):
        open_group.append(cell)
        if expected[open_group].sum() >= MIN_EXPECTED:
            groups.append(open_group)
            open_group = []
    if open_group and groups:
        groups[-1] += open_group
    joining = np.zeros((len(groups), len(expected)))
    for row, cells in enumerate(groups):
        joining[row, cells] = 1
    return joining


def p_value(found: Tally) -> float | None:
    """None where there is too little to say anything."""
    statistic, degrees = quadratic(found)
    return float(chi2.sf(statistic, degrees)) if degrees else None


def positions_needed(total_variation: float, alpha: float, power: float, degrees: int = NUM_CELLS - 1) -> int:
    """Positions that find a shift of this total variation between the cells with this power, at level alpha."""
    return math.ceil(_noncentrality(alpha, power, degrees) / (4 * total_variation**2))


def detectable(positions: int, alpha: float, power: float, degrees: int = NUM_CELLS - 1) -> float | None:
    """The total variation that so many positions find with this power; None when there are none."""
    return math.sqrt(_noncentrality(alpha, power, degrees) / (4 * positions)) if positions else None


def _noncentrality(alpha: float, power: float, degrees: int) -> float:
    critical = float(chi2.isf(alpha, degrees))

    def missing(value: float) -> float:
        return float(ncx2.sf(critical, degrees, value)) - power

    return float(brentq(missing, 1e-9, 1e4))
