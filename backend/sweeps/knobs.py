"""What a sweep can turn: the knobs of decoding, and those of training as their config names them.

Torch-free: a page draws its form from here. Knows no config class and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from backend.errors import HeadwayError

Scalar = str | int | float | bool
KnobKind = Literal["text", "choice", "whole", "number", "switch"]
Stage = Literal["decode", "train"]


@dataclass(frozen=True)
class Knob:
    """One thing that can be set.

    Args:
        label, help: for people. example: values as a person types them.
        low, high: bounds of a number, both allowed; None: none. above: whether `low` itself is not allowed.
        default: what holds when the sweep does not turn it; None: the drafter's or the training's own.
        path: where a training's config has it.
    """

    name: str
    label: str
    kind: KnobKind
    help: str
    stage: Stage = "decode"
    low: float | None = None
    high: float | None = None
    above: bool = False
    choices: tuple[str, ...] = ()
    default: Scalar | None = None
    example: str = ""
    path: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        return self.kind in ("whole", "number")

    def check(self, value: Any) -> Scalar:
        """The value in the knob's own type. Raises HeadwayError with one sentence."""
        if self.kind == "switch":
            if isinstance(value, bool):
                return value
            raise HeadwayError(f"{self.label} is on or off (true or false), not {value!r}.")
        if self.kind in ("text", "choice"):
            return self._text(value)
        return self._number(value)

    def _text(self, value: Any) -> str:
        if isinstance(value, (bool, list, tuple, dict)) or value is None or not str(value).strip():
            raise HeadwayError(f"{self.label} takes words, not {value!r}.")
        text = str(value).strip()
        if self.choices and text not in self.choices:
            raise HeadwayError(f"{self.label} is one of {', '.join(self.choices)}, not {text!r}.")
        return text

    def _number(self, value: Any) -> float | int:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise HeadwayError(f"{self.label} takes numbers, not {value!r}.")
        if self.kind == "whole" and value != int(value):
            raise HeadwayError(f"{self.label} takes whole numbers, not {value:g}.")
        if not self.allows(value):
            raise HeadwayError(f"{self.label} must be {self.bounds}, but it is {value:g}.")
        return int(value) if self.kind == "whole" else float(value)

    def allows(self, value: float) -> bool:
        """Whether a number is within the bounds; False for NaN."""
        enough = self.low is None or (value > self.low if self.above else value >= self.low)
        return enough and value == value and (self.high is None or value <= self.high)

    @property
    def bounds(self) -> str:
        """In words, "" where there are none."""
        if self.low is None and self.high is None:
            return ""
        if self.high is None:
            return f"above {self.low:g}" if self.above else f"at least {self.low:g}"
        low = f"above {self.low:g} and" if self.above else f"{self.low or 0:g} to"
        return f"{low} {'at most ' if self.above else ''}{self.high:g}"


def _decode_knobs() -> tuple[Knob, ...]:
    return (
        Knob("drafter", "Drafter", "text", "what guesses ahead: builtin-medusa, ngram, draft:MODEL, a folder of heads",
             default="builtin-medusa", example="builtin-medusa, ngram"),
        Knob("tree", "Tree", "text", "which guesses are checked together: chain-4, 3x2x1, medusa-63",
             example="chain-1, chain-2, 2x1, 2x2"),
        Knob("max_depth", "Depth", "whole", "levels of the tree that are kept", low=1, high=64, example="1, 2, 3"),
        Knob("temperature", "Temperature", "number", "0 takes the best token, higher is more random", low=0, high=5,
             default=0.0, example="0, 0.7, 1"),
        Knob("rule", "Acceptance rule", "choice", "rejection is exact; typical is faster and changes the output",
             choices=("rejection", "typical", "greedy"), default="rejection", example="typical"),
        Knob("epsilon", "ε", "number", "typical rule: probability that always passes", low=0, high=1,
             default=0.09, example="0.01 to 0.3 log"),
        Knob("delta", "δ", "number", "typical rule: lower bar where the target is unsure", low=0, high=1,
             default=0.3, example="0.1 to 0.9"),
        Knob("batch", "Batch", "whole", "prompts decoded at once", low=1, high=256, default=1, example="1, 4"),
        Knob("sampled", "Sampled siblings", "switch", "draw the guesses instead of taking the likeliest",
             default=False, example="on, off"),
    )  # fmt: skip


DECODE_KNOBS: Final[Mapping[str, Knob]] = MappingProxyType({knob.name: knob for knob in _decode_knobs()})
DATA_KNOB: Final = Knob(
    "data_rows", "Training answers", "whole", "how many of the answers are learned from, the first ones", "train",
    low=2, example="500, 2000, 8000",
)  # fmt: skip
