"""How deep to draft: one more level as long as what it is expected to win is worth more than what it costs.

Works on chains of the best guess, with confidence as the drafter states it: the product of its probabilities so far.
What a confidence is worth comes from the calibration, not from the drafter. Stopping looks at the guesses themselves,
so it is exact for *chosen* children only: leaving out sampled ones by their own probability would bias the output.
Knows records and costs; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.analysis.calibration import NO_OPINION, Replay, Walk, joined, probability, replay_lengths
from backend.drafters.adaptive import refuse_sampled
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, chain
from backend.trees.adaptive import NEVER
from backend.trees.shapes import TreeShape
from backend.tuning.cost_curve import CostCurve, Estimate, Growth, exactly
from backend.tuning.folds import folds

BINS = 8  #: into which the confidence of a level is cut, with as many positions in each
ROUNDS = 8  #: of setting thresholds for a speed and looking what speed they give


@dataclass(frozen=True)
class Stopping:
    """Draft level d + 1 only where the confidence of the first d guesses reaches thresholds[d - 1].

    `depths[d]`: share of steps that draft d levels; `begins`: whether any level is worth drafting.
    """

    thresholds: tuple[float, ...]
    replay: Replay
    step_ms: float
    depths: tuple[float, ...]
    extrapolated: bool
    begins: bool = True

    @property
    def length(self) -> float:
        return self.replay.acceptance_length

    @property
    def tokens_per_s(self) -> float:
        return 1000 * self.length / self.step_ms

    def to_dict(self) -> dict[str, Any]:
        between = self.replay.interval()
        return {
            "tree": AdaptiveShape(chain(len(self.thresholds) + 1), self.thresholds).to_json(),
            "num_nodes": len(self.thresholds) + 1,
            "thresholds": [None if value >= NEVER else value for value in self.thresholds],
            "expected_acceptance_length": self.length,
            "acceptance_interval": None if between is None else {"low": between.low, "high": between.high},
            "step_ms": self.step_ms,
            "expected_tokens_per_s": self.tokens_per_s,
            "share_of_depths": list(self.depths),
            "extrapolated": self.extrapolated,
        }


def best_stopping(
    walks: Sequence[Walk], drafted: TreeShape, cost: CostCurve, context: int, sampled: bool = False
) -> Stopping | None:
    """Thresholds for one sequence at a time; None where the drafter tells no confidence or there is nothing to go by.
    What is expected of them is what thresholds chosen in the same way reach on answers they were not chosen by.

    Raises HeadwayError for sampled children.
    """
    refuse_sampled(sampled)
    rows = [_Rows.of(walk, drafted) for walk in walks if walk.num_whole]
    if not rows or all((walk.confidence == NO_OPINION).all() for walk in walks):
        return None
    steps = _steps(rows[0], cost, context)
    best = _chosen(rows, steps)
    parts = []
    for part in folds(len(rows)):
        others = _chosen([one for number, one in enumerate(rows) if number not in part], steps)
        parts.append(_replayed([rows[number] for number in part], others.thresholds, others.begins, steps))
    if not parts:
        return best
    replayed = joined(one.replay for one in parts)
    weights = [sum(one.replay.steps) for one in parts]
    shares = np.average([one.depths for one in parts], axis=0, weights=weights)
    step_ms = float(np.average([one.step_ms for one in parts], weights=weights))
    return replace(best, replay=replayed, step_ms=step_ms, depths=tuple(shares.tolist()))


def expected_stopping(
    walks: Sequence[Walk], drafted: TreeShape, tree: AdaptiveShape, cost: CostCurve | None, context: int
) -> Stopping:
    """What is expected of any chain that stops by confidence, with one sequence at a time; without costs a step counts
    as 1 ms. Raises HeadwayError for a tree with other conditions, or a drafter that tells no confidence.
    """
    if tree.depths or not tree.stops:
        raise HeadwayError("Only stops by confidence can be foretold; depths by batch are told batch by batch.")
    rows = [_Rows.of(walk, drafted) for walk in walks if walk.num_whole]
    if not rows or all((walk.confidence == NO_OPINION).all() for walk in walks):
        raise HeadwayError("The drafter that was calibrated tells no confidence, so stops by it can't be foretold.")
    levels = min(tree.max_depth, rows[0].confidence.shape[1])
    rows = [_Rows(np.minimum(one.run, levels), one.confidence[:, :levels]) for one in rows]
    steps = [exactly(1.0)] * (levels + 1) if cost is None else _steps(rows[0], cost, context)
    stops = (*tree.stops, *(0.0,) * levels)[: levels - 1]
    return _replayed(rows, stops, True, steps)


def _steps(rows: _Rows, cost: CostCurve, context: int) -> list[Estimate]:
    """Of steps with a chain of 0, 1, 2, ... levels."""
    return [cost.step(Growth(d, max(0, d - 1), d), 1, context) for d in range(rows.confidence.shape[1] + 1)]


def _chosen(rows: Sequence[_Rows], steps: Sequence[Estimate]) -> Stopping:
    """A level is worth drafting where its chance of being accepted exceeds speed times its cost; the speed is that of
    the rule itself, so it is found in a few rounds.
    """
    depth = len(steps) - 1
    chances = [_chances(rows, d) for d in range(1, depth)]
    first = float(np.mean(np.concatenate([one.run for one in rows]) >= 1))
    speed = 1 / steps[0].ms
    best: Stopping | None = None
    for _ in range(ROUNDS):
        starts_at_all = first > speed * (steps[1].ms - steps[0].ms)
        thresholds = tuple(
            _threshold(*chances[d - 1], bar=speed * (steps[d + 1].ms - steps[d].ms)) for d in range(1, depth)
        )
        found = _replayed(rows, thresholds, starts_at_all, steps)
        if best is None or found.tokens_per_s > best.tokens_per_s:
            best = found
        if abs(found.tokens_per_s / 1000 - speed) < 1e-6 * speed:
            break
        speed = found.tokens_per_s / 1000
    assert best is not None  # of at least one round
    return best


@dataclass(frozen=True)
class _Rows:
    """One answer. run int64 [T]: how many of the best guesses in a row came true; confidence float [T, K]: the product
    of their probabilities.
    """

    run: NDArray[np.int64]
    confidence: NDArray[np.float64]

    @classmethod
    def of(cls, walk: Walk, drafted: TreeShape) -> _Rows:
        count, depth = walk.num_whole, walk.ranks.shape[1]
        place = {path: number for number, path in enumerate(drafted.paths)}
        paths = [path for path in chain(depth).paths if path in place]
        right = walk.ranks[:count, : len(paths)] == 0
        probs = probability(walk.confidence[:count][:, [place[path] for path in paths]])
        return cls(
            np.cumprod(right, axis=1).sum(axis=1).astype(np.int64),
            np.cumprod(np.nan_to_num(probs), axis=1, dtype=np.float64),
        )


def _chances(rows: Sequence[_Rows], depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(lower edges, chance that depth + 1 guesses are right) of bins of the confidence of the first `depth` guesses."""
    confidence = np.concatenate([one.confidence[:, depth - 1] for one in rows])
    deeper = np.concatenate([one.run for one in rows]) > depth
    edges = np.unique(np.quantile(confidence, np.linspace(0, 1, BINS + 1)[:-1]))
    edges[0] = 0.0
    bins = np.searchsorted(edges, confidence, side="right") - 1
    tried = np.bincount(bins, minlength=len(edges))
    hits = np.bincount(bins, weights=deeper, minlength=len(edges))
    # More confidence never means less chance: what noise says against that is evened out from above.
    chance = np.maximum.accumulate(hits / np.maximum(tried, 1))
    return edges, chance


def _threshold(edges: NDArray[np.float64], chance: NDArray[np.float64], bar: float) -> float:
    good = np.flatnonzero(chance > bar)
    return float(edges[good[0]]) if len(good) else NEVER


def _replayed(
    rows: Sequence[_Rows], thresholds: tuple[float, ...], begins: bool, steps: Sequence[Estimate]
) -> Stopping:
    drafted = [_drafted(one, thresholds, begins) for one in rows]
    accepted = [np.minimum(one.run, depth) for one, depth in zip(rows, drafted, strict=True)]
    found = replay_lengths(accepted)
    counts = np.zeros(len(steps))
    for lengths, depths in zip(accepted, drafted, strict=True):
        at = 0
        while at < len(lengths):
            counts[depths[at]] += 1
            at += int(lengths[at]) + 1
    shares = counts / max(1.0, counts.sum())
    step_ms, marked = float(shares @ np.array([one.ms for one in steps])), any(one.extrapolated for one in steps)
    return Stopping(thresholds, found, step_ms, tuple(shares.tolist()), marked, begins)


def _drafted(rows: _Rows, thresholds: tuple[float, ...], begins: bool) -> NDArray[np.int64]:
    """[T]: levels that are drafted."""
    going = np.full(len(rows.run), begins)
    levels = going.astype(np.int64)
    for depth, bar in enumerate(thresholds, 1):
        going = going & (rows.confidence[:, depth - 1] >= bar)
        levels += going
    return levels
