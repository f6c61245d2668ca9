"""Two to six runs on the same prompts, side by side: figures with intervals, differences to one of them, and splits.

A side is whatever answered prompts: a drafter of an evaluation, or decode runs with the same settings. Only prompts
that every side has answered count; all answers of a prompt (at several temperatures, say) stay together when prompts
are resampled. Knows counts and names; no store, no page. What is said of it in a sentence is in verdict.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from backend.analysis.bootstrap import Interval
from backend.analysis.counts import PromptCounts
from backend.analysis.paired import Difference, Figure, McNemar, difference, mcnemar, ratio
from backend.analysis.token_classes import CLASSES

FEWEST_SIDES, MOST_SIDES = 2, 6
RIGHT = "right"  #: the figure that says how many answers equal the one that the prompt file gives
BY_CLASS = "acceptance_by_class"  #: the figure of the splits by class of token
MOST_DEPTHS = 12  #: depths that get a figure of their own
Key = tuple[str, float]  # what was asked, at which temperature


@dataclass(frozen=True)
class Answer:
    """One side's answer to one prompt.

    Args:
        temperature: it was answered at.
        plain: plain decoding's answer to the same, from the same evaluation; None where there is none.
        drifted, drift_positions: summed total variation from the target's own law (drift.py), over how many positions;
            None where nobody knows.
        run: id of the decode run that holds its steps.
    """

    counts: PromptCounts
    temperature: float
    plain: PromptCounts | None = None
    drifted: float | None = None
    drift_positions: int = 0
    run: str | None = None


@dataclass(frozen=True)
class Side:
    """What is compared. `answers` by what was asked and the temperature."""

    key: str
    name: str
    answers: Mapping[Key, Answer]


@dataclass(frozen=True)
class Where:
    """Which prompts count; None: all. `category` is a prompt's domain."""

    category: str | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Shown:
    """A figure of one side, and how much higher it is than the reference's (None: it is the reference)."""

    value: float | None
    interval: Interval | None
    against: Difference | None


@dataclass(frozen=True)
class Line:
    """One figure of all sides, in their order. `mcnemar`: the test against the reference, for rights and wrongs."""

    name: str
    sides: tuple[Shown, ...]
    mcnemar: tuple[McNemar | None, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Split:
    """The same figures over a part of the prompts: of one domain, or at one temperature; or, by class of token, the
    acceptance of the tokens of one class.
    """

    by: str
    value: str
    prompts: int
    lines: tuple[Line, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Point:
    """One prompt of the scatter. `lengths` and `speeds`: a side's own figures; `runs`: where its steps are kept."""

    asked: str
    prompt: str
    category: str
    lengths: tuple[float | None, ...]
    speeds: tuple[float | None, ...]
    runs: tuple[str | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything about some sides on their common prompts.

    Args:
        common: prompts that count; `asked`: prompts of each side before the others were looked at.
        mixed_temperatures: the sides share no temperature, so that a prompt is compared across temperatures.
        same_text: answers of each side that equal the reference's token for token, of `num_answers`.
        depths: acceptance at depth 1, 2, ... of all steps; `conditional`: of the steps that drafted a child there.
        histograms: for each side the share of steps that accepted 0, 1, ... drafted tokens.
    """

    sides: tuple[Side, ...]
    reference: int
    common: int
    asked: tuple[int, ...]
    num_answers: int
    mixed_temperatures: bool
    same_text: tuple[int, ...]
    lines: tuple[Line, ...]
    depths: tuple[Line, ...]
    conditional: tuple[tuple[float | None, ...], ...]
    histograms: tuple[tuple[float, ...], ...]
    splits: tuple[Split, ...]
    points: tuple[Point, ...]
    figures: Mapping[str, tuple[Figure, ...]] = field(default_factory=dict, compare=False, repr=False)


def compare(sides: Sequence[Side], reference: int = 0, where: Where | None = None) -> Comparison:
    """Raises ValueError for too few or too many sides, or a reference that is none of them."""
    if not FEWEST_SIDES <= len(sides) <= MOST_SIDES or not 0 <= reference < len(sides):
        raise ValueError(f"two to six sides with a reference among them, got {len(sides)} and {reference}")
    kept = [_only(side, where or Where()) for side in sides]
    mixed, units = _paired(kept)
    table = _Table(units, len(sides), reference)
    reached = max((len(one.counts.accepted_per_depth) for unit in units for own in unit.own for one in own), default=0)
    return Comparison(
        sides=tuple(sides),
        reference=reference,
        common=len(units),
        asked=tuple(len({asked for asked, _ in side}) for side in kept),
        num_answers=sum(len(unit.own[reference]) for unit in units),
        mixed_temperatures=mixed,
        same_text=tuple(_same_text(units, side, reference) for side in range(len(sides))),
        lines=table.lines(),
        depths=tuple(table.depth(level) for level in range(min(reached, MOST_DEPTHS))),
        conditional=tuple(_conditional(units, side, min(reached, MOST_DEPTHS)) for side in range(len(sides))),
        histograms=tuple(_histogram(units, side) for side in range(len(sides))),
        splits=tuple(_splits(units, len(sides), reference, mixed)),
        points=tuple(table.points()),
        figures=table.figures,
    )


@dataclass(frozen=True)
class _Unit:
    """What is resampled as one: a prompt, with the answers of each side."""

    asked: str
    own: tuple[tuple[Answer, ...], ...]

    @property
    def category(self) -> str:
        return self.own[0][0].counts.category


def _only(side: Side, where: Where) -> dict[Key, Answer]:
    return {
        key: one
        for key, one in side.answers.items()
        if where.category in (None, one.counts.category) and where.temperature in (None, key[1])
    }


def _paired(kept: Sequence[Mapping[Key, Answer]]) -> tuple[bool, list[_Unit]]:
    """(whether prompts are compared across temperatures, the prompts that all sides have answered)."""
    common = set.intersection(*(set(one) for one in kept))
    asked = set.intersection(*({asked for asked, _ in one} for one in kept))
    mixed = not common and bool(asked)
    found: dict[str, list[list[Answer]]] = {}
    for side, answers in enumerate(kept):
        for key in sorted(answers):
            if (key[0] in asked) if mixed else (key in common):
                found.setdefault(key[0], [[] for _ in kept])[side].append(answers[key])
    return mixed, [_Unit(name, tuple(tuple(own) for own in found[name])) for name in sorted(found)]


class _Table:
    """Sums by prompt and side, and the figures that are made of them."""

    def __init__(self, units: Sequence[_Unit], sides: int, reference: int) -> None:
        self.units, self.sides, self.reference = units, range(sides), reference

    def lines(self) -> tuple[Line, ...]:
        """The figures that every side has."""
        return tuple(self._line(name, figures) for name, figures in self.figures.items())

    @cached_property
    def figures(self) -> dict[str, tuple[Figure, ...]]:
        """By name, a figure a side; without what no side or not every side knows."""
        if not self.units:
            return {}
        made = {
            "acceptance_length": self._each(_tokens_accepted, _steps),
            "tokens_per_s": self._each(_tokens, _seconds),
        }
        if self._all(lambda one: one.plain is not None):
            plain = self._each(lambda one: _tokens(one.plain), lambda one: _seconds(one.plain))
            made["speedup"] = tuple(own.over(other) for own, other in zip(made["tokens_per_s"], plain, strict=True))
        if self._all(lambda one: one.drifted is not None):
            made["drift"] = self._each(lambda one: one.drifted or 0.0, lambda one: one.drift_positions)
        if self._all(lambda one: one.counts.right is not None):
            made[RIGHT] = self._each(lambda one: bool(one.counts.right), lambda one: 1)
        return {name: figures for name, figures in made.items() if any(one.value is not None for one in figures)}

    def depth(self, level: int) -> Line:
        """Acceptance at depth `level` + 1, of all steps."""

        def accepted(one: Answer) -> int:
            counts = one.counts.accepted_per_depth
            return counts[level] if level < len(counts) else 0

        return self._line(f"depth {level + 1}", self._each(accepted, _steps))

    def of_class(self, number: int) -> Line | None:
        """Acceptance of tokens of one class; None where it was not counted or nothing of the class was drafted."""
        if not self.units or not self._all(lambda one: one.counts.tried_by_class is not None):
            return None
        figures = self._each(
            lambda one: one.counts.accepted_by_class[number], lambda one: one.counts.tried_by_class[number]
        )
        return self._line(BY_CLASS, figures) if any(one.value is not None for one in figures) else None

    def points(self) -> Iterable[Point]:
        lengths = [figure.each for figure in self.figures.get("acceptance_length", ())]
        speeds = [figure.each for figure in self.figures.get("tokens_per_s", ())]
        for number, unit in enumerate(self.units):
            yield Point(
                unit.asked,
                unit.own[0][0].counts.prompt,
                unit.category,
                tuple(_known(one[number]) for one in lengths),
                tuple(_known(one[number]) for one in speeds),
                tuple(next((one.run for one in own if one.run), None) for own in unit.own),
            )

    def _each(self, above: Callable[[Any], float], below: Callable[[Any], float]) -> tuple[Figure, ...]:
        """A ratio of sums for each side; all are resampled with the same draws."""
        return tuple(
            ratio(
                [sum(above(one) for one in unit.own[side]) for unit in self.units],
                [sum(below(one) for one in unit.own[side]) for unit in self.units],
                "comparison",
            )
            for side in self.sides
        )

    def _all(self, holds: Callable[[Answer], bool]) -> bool:
        return all(holds(one) for unit in self.units for own in unit.own for one in own)

    def _line(self, name: str, figures: Sequence[Figure]) -> Line:
        first = figures[self.reference]
        shown = tuple(
            Shown(one.value, one.interval, None if one is first else difference(first, one)) for one in figures
        )
        tests: tuple[McNemar | None, ...] = ()
        if name == RIGHT:
            tests = tuple(None if one is first else mcnemar(first.each == 1, one.each == 1) for one in figures)
        return Line(name, shown, tests)


def _counts(one: Answer | PromptCounts | None) -> PromptCounts:
    counts = one.counts if isinstance(one, Answer) else one
    assert counts is not None
    return counts


def _tokens_accepted(one: Answer) -> int:
    return one.counts.num_accepted + one.counts.num_steps


def _steps(one: Answer) -> int:
    return one.counts.num_steps


def _tokens(one: Answer | PromptCounts | None) -> int:
    return _counts(one).num_tokens - 1


def _seconds(one: Answer | PromptCounts | None) -> float:
    return _counts(one).decode_ms / 1000


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def _same_text(units: Sequence[_Unit], side: int, reference: int) -> int:
    return sum(
        own.counts.digest == other.counts.digest
        for unit in units
        for own, other in zip(unit.own[side], unit.own[reference], strict=False)
    )


def _sums(units: Sequence[_Unit], side: int, name: str) -> list[int]:
    """Counts per depth, added up."""
    found: list[int] = []
    for unit in units:
        for one in unit.own[side]:
            counts = getattr(one.counts, name)
            found += [0] * (len(counts) - len(found))
            for level, count in enumerate(counts):
                found[level] += count
    return found


def _conditional(units: Sequence[_Unit], side: int, depths: int) -> tuple[float | None, ...]:
    accepted, drafted = (_sums(units, side, name) for name in ("accepted_per_depth", "drafted_per_depth"))
    return tuple(
        accepted[level] / drafted[level] if level < min(len(accepted), len(drafted)) and drafted[level] else None
        for level in range(depths)
    )


def _histogram(units: Sequence[_Unit], side: int) -> tuple[float, ...]:
    """Steps that accepted at least d are counted by depth, so exactly d is the difference to the next depth."""
    steps = sum(one.counts.num_steps for unit in units for one in unit.own[side])
    if not steps:
        return ()
    at_least = [steps, *_sums(units, side, "accepted_per_depth"), 0]
    return tuple((here - deeper) / steps for here, deeper in pairwise(at_least))


def _splits(units: Sequence[_Unit], sides: int, reference: int, mixed: bool) -> Iterable[Split]:
    """By domain and by temperature, where there are several; then by class of token, where all sides counted it."""
    categories = sorted({unit.category for unit in units})
    if len(categories) > 1:
        for category in categories:
            part = [unit for unit in units if unit.category == category]
            yield Split("domain", category, len(part), _Table(part, sides, reference).lines())
    temperatures = {} if mixed else _by_temperature(units)
    if len(temperatures) > 1:
        for temperature, part in sorted(temperatures.items()):
            yield Split("temperature", f"{temperature:g}", len(part), _Table(part, sides, reference).lines())
    table = _Table(units, sides, reference)
    for number, name in enumerate(CLASSES):
        line = table.of_class(number)
        if line is not None:
            yield Split("class", name, len(units), (line,))


def _by_temperature(units: Sequence[_Unit]) -> dict[float, list[_Unit]]:
    found: dict[float, list[_Unit]] = {}
    for unit in units:
        for temperature in sorted({one.temperature for one in unit.own[0]}):
            own = tuple(tuple(one for one in side if one.temperature == temperature) for side in unit.own)
            found.setdefault(temperature, []).append(_Unit(unit.asked, own))
    return found
