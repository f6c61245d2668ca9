"""The values of each knob that a sweep tries: a list, or a range (logarithmic too). As a person types it, as it stands
in a file, and back.

Torch-free. Knows knobs and numbers; which combinations make sense is said in `combine`.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from backend.errors import HeadwayError
from backend.sweeps.knobs import Knob, Scalar

POINTS = 5  #: of a range in a grid that does not say how many
MOST_VALUES = 1000
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:to|\.\.)\s*({_NUMBER})((?:\s+(?:log|\d+\s+points?))*)", re.IGNORECASE)
_SWITCHES = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


class Values(BaseModel):
    """A list: these values and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: tuple[bool | int | float | str, ...] = Field(min_length=1, max_length=MOST_VALUES)


class Range(BaseModel):
    """Every number from `low` to `high`; with `log` as many below the geometric middle as above it.

    points: how many of them a grid takes, both ends counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float = Field(allow_inf_nan=False)
    high: float = Field(allow_inf_nan=False)
    log: bool = False
    points: int = Field(POINTS, ge=2, le=MOST_VALUES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low < self.high:
            raise HeadwayError(f"A range goes from less to more, not from {self.low:g} to {self.high:g}.")
        if self.log and self.low <= 0:
            raise HeadwayError(f"A logarithmic range starts above 0, not at {self.low:g}.")
        return self


Tried = Values | Range


@dataclass(frozen=True)
class Dimension:
    """One knob and what is tried of it."""

    knob: Knob
    tried: Tried

    @property
    def fixed(self) -> bool:
        return isinstance(self.tried, Values) and len(self.tried.values) == 1

    def grid(self) -> list[Scalar]:
        """The values of a grid."""
        if isinstance(self.tried, Values):
            return list(self.tried.values)
        spaced = np.geomspace if self.tried.log else np.linspace
        numbers = [float(f"{value:.6g}") for value in spaced(self.tried.low, self.tried.high, self.tried.points)]
        return list(dict.fromkeys(round(value) if self.knob.kind == "whole" else value for value in numbers))

    def drawn(self, rng: np.random.Generator) -> Scalar:
        """One value at random."""
        if isinstance(self.tried, Values):
            return self.tried.values[int(rng.integers(len(self.tried.values)))]
        low, high = self.tried.low, self.tried.high
        if self.knob.kind == "whole":
            return int(np.clip(round(self._between(low - 0.5, high + 0.5, rng, floor=0.5)), low, high))
        return float(f"{self._between(low, high, rng, floor=low):.6g}")

    def _between(self, low: float, high: float, rng: np.random.Generator, floor: float) -> float:
        assert isinstance(self.tried, Range)
        if self.tried.log:
            return math.exp(rng.uniform(math.log(max(low, floor)), math.log(high)))
        return float(rng.uniform(low, high))


def dimensions(space: Mapping[str, Any], knobs: Mapping[str, Knob]) -> tuple[Dimension, ...]:
    """The checked space, in its own order. Each entry is a value, a list, a mapping (low, high, log, points) or text as
    a person types it. Raises HeadwayError that names the knob.
    """
    found = []
    for name, given in space.items():
        if name not in knobs:
            near = difflib.get_close_matches(name, knobs, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(knobs)}."
            raise HeadwayError(f"There is no knob named {name!r}; {hint}")
        found.append(Dimension(knobs[name], _tried(given, knobs[name])))
    return tuple(found)


def _tried(given: Any, knob: Knob) -> Tried:
    if isinstance(given, str):
        return parse_values(given, knob)
    if isinstance(given, Mapping) and "low" in given:
        return _range(knob, given)
    if isinstance(given, Mapping) and set(given) == {"values"}:
        given = given["values"]
    if isinstance(given, Mapping):
        raise HeadwayError(f"{knob.name}: write a value, a list, or low, high, log and points.")
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    return _values(knob, listed)


def _values(knob: Knob, listed: list[Any]) -> Values:
    if not listed:
        raise HeadwayError(f"{knob.label} has no values; write at least one.")
    if len(listed) > MOST_VALUES:
        raise HeadwayError(f"{knob.label} has {len(listed)} values; at most {MOST_VALUES} are tried, so use a range.")
    checked = tuple(knob.check(value) for value in listed)
    if len(set(checked)) < len(checked):
        raise HeadwayError(f"{knob.label} names a value twice ({', '.join(map(shown, checked))}); name it once.")
    return Values(values=checked)


def _range(knob: Knob, given: Mapping[str, Any]) -> Range:
    if not knob.numeric:
        raise HeadwayError(f"{knob.label} has no range; list its values with commas.")
    unknown = set(given) - set(Range.model_fields)
    if unknown or not {"low", "high"} <= set(given):
        raise HeadwayError(f"{knob.name}: a range has low, high, and if you like log and points.")
    low, high = (knob.check(given[end]) for end in ("low", "high"))
    try:
        return Range(low=float(low), high=float(high), log=bool(given.get("log", False)),
                     points=int(given.get("points", POINTS)))  # fmt: skip
    except (TypeError, ValueError):
        raise HeadwayError(f"{knob.name}: points is a whole number from 2 to {MOST_VALUES}.") from None


def parse_values(text: str, knob: Knob) -> Tried:
    """What a person typed: "chain-1, 2x2", "0.01 to 0.3 log 4 points", or JSON where a value holds commas itself.

    Raises HeadwayError with one sentence.
    """
    text = text.strip()
    found = _RANGE.fullmatch(text)
    if found and knob.numeric:
        points = re.search(r"(\d+)\s+point", found[3])
        return _range(knob, {"low": float(found[1]), "high": float(found[2]), "log": "log" in found[3].lower(),
                             "points": int(points[1]) if points else POINTS})  # fmt: skip
    return _values(knob, [_scalar(part, knob) for part in _parts(text)])


def _parts(text: str) -> list[str]:
    """Pieces between commas that stand in no brackets: trees may be JSON paths."""
    parts, depth, last = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter in ",;\n" and depth == 0:
            parts.append(text[last:place])
            last = place + 1
    return [part.strip() for part in [*parts, text[last:]] if part.strip()]


def _scalar(part: str, knob: Knob) -> Any:
    if knob.kind == "switch":
        return _SWITCHES.get(part.lower(), part)
    if not knob.numeric:
        return part
    try:
        return int(part) if knob.kind == "whole" else float(part)
    except ValueError:
        example = f", such as {knob.example}" if knob.example else ""
        raise HeadwayError(
            f"{knob.label} takes numbers with commas, or a range like 1 to 8{example}; not {part!r}."
        ) from None


def as_text(tried: Tried) -> str:
    """As a person types it; `parse_values` gives it back."""
    if isinstance(tried, Values):
        return ", ".join(map(shown, tried.values))
    log = " log" if tried.log else ""
    points = f" {tried.points} points" if tried.points != POINTS else ""
    return f"{shown(tried.low)} to {shown(tried.high)}{log}{points}"


def as_data(tried: Tried) -> Any:
    """As it stands in a file."""
    if isinstance(tried, Values):
        return list(tried.values)
    return tried.model_dump(mode="json")


def shown(value: Scalar) -> str:
    """One value for people, as short as it can be told."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def key_of(settings: Mapping[str, Any]) -> str:
    """The same text for the same settings."""
    return json.dumps(settings, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
