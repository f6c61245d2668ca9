"""What a step costs here: measured times of target passes and of drafting, and what follows between the points.

Between measured points times are interpolated; beyond them they are continued and marked *extrapolated*, and nothing is
recommended from such a time without saying so. A curve belongs to one device, number of threads, dtype and target
version. Knows arithmetic; measuring is in cost_measure.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.analysis.bootstrap import Interval
from backend.trees.shapes import TreeShape

TAIL = 3  #: measured points that show how a pass grows when it is long
KNEE_RISE = 1.5  #: a pass that never takes this many one-row passes has no knee within what was measured


@dataclass(frozen=True)
class PassCost:
    """A target pass of `batch` sequences with `rows` columns each, behind `context` tokens: the median and, as far as
    repeats can tell, where it lies.
    """

    rows: int
    batch: int
    context: int
    ms: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class StepCost:
    """What of a step is not the target's pass, for one tree. depth 0 is plain decoding.

    `extended`: drafted nodes that have children, the drafter's own passes go over these.
    """

    depth: int
    extended: int
    nodes: int
    batch: int
    draft_ms: float
    other_ms: float
    repeats: int


@dataclass(frozen=True)
class Estimate:
    """Milliseconds, between low and high as far as the measurement's noise goes."""

    ms: float
    low: float
    high: float
    extrapolated: bool

    def plus(self, other: Estimate) -> Estimate:
        return Estimate(
            self.ms + other.ms, self.low + other.low, self.high + other.high, self.extrapolated or other.extrapolated
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def mixed(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """The mean of steps of several kinds, each as often as its weight says."""
    whole = sum(weights)

    def mean(values: Iterable[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / whole

    return Estimate(
        mean(one.ms for one in estimates),
        mean(one.low for one in estimates),
        mean(one.high for one in estimates),
        any(one.extrapolated for one, weight in zip(estimates, weights, strict=True) if weight),
    )


def exactly(ms: float, extrapolated: bool = False) -> Estimate:
    return Estimate(ms, ms, ms, extrapolated)


@dataclass(frozen=True)
class Growth:
    """What drafting a tree depends on."""

    depth: int
    extended: int
    nodes: int

    @classmethod
    def of(cls, shape: TreeShape) -> Growth:
        inner = set(shape.parents) - {-1, 0}
        return cls(shape.max_depth, len(inner), shape.num_nodes)


@dataclass(frozen=True)
class CostCurve:
    """`conditions`: where and with what it was measured; `drafter`: whose drafting the steps are."""

    passes: tuple[PassCost, ...]
    steps: tuple[StepCost, ...] = ()
    drafter: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": 1, "drafter": self.drafter, "conditions": dict(self.conditions), "notes": list(self.notes),
            "passes": [asdict(one) for one in self.passes], "steps": [asdict(one) for one in self.steps],
        }  # fmt: skip

    # -- what a step takes ---------------------------------------------------------------------------------------------

    def step(self, growth: Growth, batch: int, context: int) -> Estimate:
        """A whole step with a tree: drafting, one pass over the tree and the root, and the rest."""
        whole = self.verify(growth.nodes + 1, batch, context)
        whole = whole.plus(self.draft(growth, batch)) if growth.nodes else whole
        return whole.plus(self.other(growth.nodes, batch))

    def plain(self, batch: int, context: int) -> Estimate:
        """A step of plain decoding."""
        return self.step(Growth(0, 0, 0), batch, context)

    def verify(self, rows: int, batch: int, context: int) -> Estimate:
        """A target pass over `rows` columns of each of `batch` sequences."""
        found = {b: self._at_context(b, rows, context) for b in self._blocks}
        if batch in found:
            return found[batch]
        near = min(found, key=lambda b: (abs(b - batch), b))
        if not min(found) < batch < max(found):
            # As many rows in all, in a batch that was measured: what the pass computes is nearly the same.
            return _marked(self._at_context(near, max(1, round(rows * batch / near)), context))
        return _between(found, batch)

    def draft(self, growth: Growth, batch: int) -> Estimate:
        """Drafting a tree; nothing for none."""
        if not growth.nodes:
            return exactly(0.0)
        drafting = [one for one in self.steps if one.nodes]
        deepest = max((one.depth for one in drafting), default=0)
        beyond = growth.depth > deepest and len({(one.depth, one.nodes) for one in drafting}) > 1
        return self._by_batch(drafting, batch, growth, _draft_features, lambda one: one.draft_ms, beyond)

    def other(self, nodes: int, batch: int) -> Estimate:
        """What of a step is neither drafting nor the pass."""
        growth = Growth(0, 0, nodes)
        return self._by_batch(list(self.steps), batch, growth, _other_features, lambda one: one.other_ms, False)

    # -- what can be said of the machine -------------------------------------------------------------------------------

    def knee(self, batch: int = 1) -> int | None:
        """Rows of a pass at which it stops being nearly free: where the line along the longest measured passes meets
        the time of one row. None when the passes measured never leave the flat part.
        """
        blocks = self._blocks.get(batch)
        if not blocks:
            return None
        points = blocks[min(blocks)]
        if len(points) <= TAIL or points[-1].ms < KNEE_RISE * points[0].ms:
            return None
        tail = points[-TAIL:]
        slope, start = np.polyfit([one.rows for one in tail], [one.ms for one in tail], 1)
        if slope <= 0:
            return None
        return max(1, round(float((points[0].ms - start) / slope)))

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(sorted(self._blocks))

    @property
    def contexts(self) -> tuple[int, ...]:
        return tuple(sorted({one.context for one in self.passes}))

    @cached_property
    def _blocks(self) -> dict[int, dict[int, list[PassCost]]]:
        """batch -> context -> points in the order of rows."""
        found: dict[int, dict[int, list[PassCost]]] = {}
        for one in sorted(self.passes, key=lambda p: p.rows):
            found.setdefault(one.batch, {}).setdefault(one.context, []).append(one)
        return found

    def _at_context(self, batch: int, rows: int, context: int) -> Estimate:
        contexts = self._blocks[batch]
        found = {c: _at_rows(points, rows) for c, points in contexts.items()}
        if len(found) == 1 or context <= min(found):
            known = found[min(found)]
            return (
                known if context <= 2 * min(found) or not min(found) else _marked(known)
            )  # attention grows slowly at first
        return _between(found, context)

    def _by_batch(
        self,
        points: Sequence[StepCost],
        batch: int,
        growth: Growth,
        features: Callable[[Growth], list[float]],
        time: Callable[[StepCost], float],
        beyond: bool,
    ) -> Estimate:
        if not points:
            return exactly(0.0)
        found: dict[int, Estimate] = {}
        for size in sorted({one.batch for one in points}):
            here = [one for one in points if one.batch == size]
            rows = np.array([features(Growth(one.depth, one.extended, one.nodes)) for one in here])
            weights = fitted(rows, np.array([time(one) for one in here]))
            found[size] = exactly(float(np.array(features(growth)) @ weights), beyond)
        if batch in found:
            return found[batch]
        if len(found) == 1:
            (size,) = found
            scale = self.verify(1, batch, min(self.contexts)).ms / self.verify(1, size, min(self.contexts)).ms
            return exactly(found[size].ms * scale, True)
        return _between(found, batch)


def _draft_features(growth: Growth) -> list[float]:
    return [1.0, float(growth.depth), float(growth.extended)]


def _other_features(growth: Growth) -> list[float]:
    return [1.0, float(growth.nodes)]


def fitted(features: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with no negative weight: features [n, F], times [n] -> [F]. Features that the points can't tell
    apart get none.
    """
    used = list(range(min(features.shape[1], len(times))))
    weights = np.zeros(features.shape[1])
    while used:
        found, *_ = np.linalg.lstsq(features[:, used], times, rcond=None)
        if (found >= 0).all():
            weights[used] = found
            break
        used.pop(int(np.argmin(found)))
    return weights


def _at_rows(points: Sequence[PassCost], rows: int) -> Estimate:
    found = {one.rows: Estimate(one.ms, one.low, one.high, False) for one in points}
    if rows in found:
        return found[rows]
    if len(found) == 1 or rows < min(found):
        return _marked(found[min(found)])
    return _between(found, rows)


def _between(found: Mapping[int, Estimate], at: int) -> Estimate:
    """On the straight line between the two nearest points; outside of all of them it is continued and marked. More of
    anything never takes less: a line that falls is noise, and beyond its end it is level.
    """
    if at in found:
        return found[at]
    places = sorted(found)
    if len(places) == 1:
        return _marked(found[places[0]])
    above = next((i for i, place in enumerate(places) if place > at), len(places) - 1)
    low, high = places[max(0, above - 1)], places[max(1, above)]
    share = (at - low) / (high - low)
    a, b = found[low], found[high]

    def line(x: float, y: float) -> float:
        return max(0.0 if share <= 1 else y, x + share * (y - x))

    marked = a.extrapolated or b.extrapolated or not places[0] <= at <= places[-1]
    return Estimate(line(a.ms, b.ms), line(a.low, b.low), line(a.high, b.high), marked)


def _marked(estimate: Estimate) -> Estimate:
    return Estimate(estimate.ms, estimate.low, estimate.high, True)


def median_cost(times: Sequence[float]) -> tuple[float, Interval]:
    """The median of repeats and where it lies with about 95 % confidence, by order statistics."""
    ordered = sorted(times)
    count = len(ordered)
    reach = 0.98 * count**0.5
    low, high = max(0, int(count / 2 - reach)), min(count - 1, int(np.ceil(count / 2 + reach)))
    return float(np.median(ordered)), Interval(ordered[low], ordered[high])
