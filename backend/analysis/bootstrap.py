"""How sure a ratio of sums is: resampling prompts, the things that were drawn, not tokens or steps.

Steps of one answer resemble each other, so prompts are drawn whole (a clustered bootstrap, percentile intervals,
seeded). What is compared on the same prompts is resampled with the same draws, so differences are paired. Knows arrays
of numbers; nothing of what they count.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Draws = NDArray[np.float64]
Numbers = Sequence[float] | NDArray[np.float64]

REPEATS, FEWEST_REPEATS = 2000, 200
MOST_NUMBERS = 400_000  #: that one table of draws may hold: thousands of prompts need fewer repetitions
LEVEL = 0.95
FEWEST = 5  #: with fewer prompts an interval would pretend to know something


@dataclass(frozen=True)
class Interval:
    """Where the value lies with 95 % confidence, as far as the choice of prompts goes."""

    low: float
    high: float

    @property
    def beyond_zero(self) -> bool:
        """Whether 0 lies outside."""
        return self.low > 0 or self.high < 0


@lru_cache(maxsize=64)
def weights(count: int, name: str) -> Draws:
    """[repeats, count]: how often each of `count` prompts is drawn in each repetition; the same for the same name."""
    repeats = max(FEWEST_REPEATS, min(REPEATS, MOST_NUMBERS // count))
    generator = np.random.default_rng([zlib.crc32(name.encode()), count])
    made = generator.multinomial(count, np.full(count, 1 / count), size=repeats).astype(np.float64)
    made.setflags(write=False)  # shared by everyone who asks
    return made


def ratio_draws(numerators: Numbers, denominators: Numbers, name: str) -> Draws:
    """[repeats]: sum of numerators over sum of denominators, prompts resampled; nan where the denominator is 0."""
    drawn = weights(len(numerators), name)
    with np.errstate(divide="ignore", invalid="ignore"):
        made: Draws = (drawn @ np.asarray(numerators, np.float64)) / (drawn @ np.asarray(denominators, np.float64))
    made[~np.isfinite(made)] = np.nan
    return made


def interval(draws: Draws, prompts: int) -> Interval | None:
    """The middle 95 % of the draws; None with too few prompts or nothing to go by."""
    usable = draws[~np.isnan(draws)]
    if prompts < FEWEST or not len(usable):
        return None
    low, high = np.quantile(usable, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))


def difference_interval(draws: Draws, prompts: int, level: float = LEVEL) -> Interval | None:
    """The same for a difference of two figures: the draws' mean, and Student's quantile times their spread each way.

    With 40 prompts and many ties it holds the truth in 94 of 100 comparisons, where percentiles did in 91
    (tests/analysis/test_paired.py). Draws of n prompts vary as an estimate with a variance over n; n - 1 is right.
    """
    usable = draws[~np.isnan(draws)]
    if prompts < FEWEST or not len(usable):
        return None
    around = -stdtrit(prompts - 1, (1 - level) / 2) * usable.std() * np.sqrt(prompts / (prompts - 1))
    middle = usable.mean()
    return Interval(float(middle - around), float(middle + around))
