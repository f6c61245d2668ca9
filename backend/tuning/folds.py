"""Answers in parts: what was chosen by some answers looks better on them than it is, the more so the more there was to
choose from. So each part is judged with what the others chose. Knows numbers of answers only.
"""

from __future__ import annotations

from typing import Final

FOLDS: Final = 4
FEWEST_FOLDED: Final = 8  #: fewer answers are not cut up: three quarters of them would choose badly


def folds(count: int) -> list[range]:
    """The numbers of the answers of each part; none where there are too few of `count` to be cut up."""
    return [range(part, count, FOLDS) for part in range(FOLDS)] if count >= FEWEST_FOLDED else []
