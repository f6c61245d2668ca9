"""The static tree that gives the most tokens a second: expected acceptance over what a step with it costs.

A tree's cost depends on how many nodes it has and how deep it is; so for every depth the best trees of all sizes are
grown (trees/search.py), and of all sizes and depths the best quotient is taken. Plain decoding, a tree without nodes,
is one of them. Knows rates and costs; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backend.analysis.bootstrap import Interval
from backend.trees.search import TreeCurve
from backend.trees.shapes import TreeShape
from backend.tuning.cost_curve import CostCurve, Estimate, Growth


@dataclass(frozen=True)
class Candidate:
    """A tree with what is expected of it. Without a cost curve there is no step and no speed.

    Args:
        step: of `batch` sequences at once.
        interval: of the acceptance length.
    """

    shape: TreeShape
    length: float
    batch: int = 1
    step: Estimate | None = None
    interval: Interval | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Of all sequences together."""
        return None if self.step is None else 1000 * self.batch * self.length / self.step.ms

    @property
    def speed_interval(self) -> Interval | None:
        """Where the speed lies: both the prompts' and the clock's share of the doubt."""
        if self.step is None or self.interval is None:
            return None
        scale = 1000 * self.batch
        return Interval(scale * self.interval.low / self.step.high, scale * self.interval.high / self.step.low)

    @property
    def extrapolated(self) -> bool:
        return self.step is not None and self.step.extrapolated

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the names of the command line."""

        def plain(between: Interval | None) -> dict[str, float] | None:
            return None if between is None else {"low": between.low, "high": between.high}

        return {
            "paths": self.shape.to_json(),
            "num_nodes": self.shape.num_nodes,
            "max_depth": self.shape.max_depth,
            "expected_acceptance_length": self.length,
            "acceptance_interval": plain(self.interval),
            "step_ms": None if self.step is None else self.step.ms,
            "expected_tokens_per_s": self.tokens_per_s,
            "speed_interval": plain(self.speed_interval),
            "extrapolated": self.extrapolated,
        }


def best_of_each_size(
    curve: Callable[[int], TreeCurve], max_depth: int, cost: CostCurve | None, batch: int, context: int
) -> list[Candidate]:
    """For 0, 1, 2, ... nodes the best tree of that size: the fastest, or without costs the one that accepts most.

    `curve(depth)`: all best trees no deeper than that.
    """
    curves = [curve(max_depth)] if cost is None else [curve(depth) for depth in range(1, max_depth + 1)]
    largest = max((one.num_nodes for one in curves), default=0)
    found = [Candidate(TreeShape(()), 1.0, batch, None if cost is None else cost.plain(batch, context))]
    for nodes in range(1, largest + 1):
        sized = [_candidate(one, nodes, cost, batch, context) for one in curves if one.num_nodes >= nodes]
        found.append(max(sized, key=lambda one: (one.tokens_per_s or 0.0, one.length)))
    return found


def fastest(candidates: Sequence[Candidate]) -> Candidate:
    """The one with the most tokens a second, or without costs the longest; of equals the smaller."""

    def worth(one: Candidate) -> tuple[float, int]:
        speed = one.tokens_per_s
        return (one.length if speed is None else speed, -one.shape.num_nodes)

    return max(candidates, key=worth)


def _candidate(curve: TreeCurve, nodes: int, cost: CostCurve | None, batch: int, context: int) -> Candidate:
    shape = curve.shape(nodes)
    step = None if cost is None else cost.step(Growth.of(shape), batch, context)
    return Candidate(shape, curve.lengths[nodes], batch, step)
