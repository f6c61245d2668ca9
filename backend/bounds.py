"""What the numbers of a decode run may be: one definition for the page, the command line, the engine and the rules.

Knows no torch and no form. Each bound refuses a value with the one sentence that a person reads, wherever it came from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from backend.errors import HeadwayError

MIN_TEMPERATURE: Final = 1e-3  #: below this, logits / T leaves the range of float32; 0 says "greedy" and is meant


@dataclass(frozen=True)
class Bound:
    """`low` to `high`, both allowed unless `above` (then `low` itself is not), or exactly `off`.

    `subject` begins the sentence, `words` says what is allowed and what turns the setting off.
    """

    subject: str
    words: str
    low: float = 0.0
    high: float = math.inf
    above: bool = False
    off: float | None = None

    def allows(self, value: float) -> bool:
        """Also False for NaN and infinity."""
        if value == self.off:
            return True
        enough = value > self.low if self.above else value >= self.low
        return enough and value <= self.high and value != math.inf

    def check(self, value: float) -> None:
        """Raise HeadwayError that names the bound and the value."""
        if not self.allows(value):
            raise HeadwayError(f"{self.subject} must be {self.words}, but it is {value}.")


BOUNDS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "max_new_tokens": Bound("The longest answer", "1 to 8192 tokens", 1, 8192),
        "temperature": Bound("The temperature", "0 (greedy) or 0.001 to 100", MIN_TEMPERATURE, 100, off=0),
        "top_k": Bound("Top-k", "0 (off) or more"),
        "top_p": Bound("Top-p", "above 0 and at most 1 (off)", 0, 1, above=True),
        "min_p": Bound("Min-p", "0 (off) to 1", 0, 1),
        "repetition_penalty": Bound("The repetition penalty", "0.01 to 100 (1 is off)", 0.01, 100),
        "epsilon": Bound("The threshold ε (epsilon)", "0 to 1", 0, 1),
        "delta": Bound("The threshold δ (delta)", "0 to 1", 0, 1),
        "max_depth": Bound("The depth", "0 (nothing is drafted) or more, or left out for all levels"),
        "seed": Bound("The seed", "0 or more"),
        "banned_tokens": Bound("A banned token", "0 or more"),
    }
)


def check_bounds(**values: float) -> None:
    """Raise HeadwayError for the first of the named values that is out of its bound."""
    for name, value in values.items():
        BOUNDS[name].check(value)
