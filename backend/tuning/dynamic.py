"""What dynamic trees would have accepted, replayed from a calibration, and which of them is fastest.

At each position the drafted tree holds the drafter's confidence in every node; a dynamic tree is a part of it, chosen
by confidence (drafters/growing.py grows the same one). Candidates beyond the drafted tree are not known, so wide
dynamic trees come out a little worse here than they are. Drafters whose candidates do not depend on the path grow the
likeliest paths of all (drafters/best_first.py). Knows records and costs; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backend.analysis.calibration import Replay, Walk, joined, probability, replay_lengths, whole
from backend.drafters.best_first import offers_of
from backend.drafters.growing import TIE_BREAK, most_likely
from backend.errors import HeadwayError
from backend.trees import DynamicShape, TreeShape
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve, Estimate, Growth, mixed
from backend.tuning.folds import folds
from backend.tuning.notation import three_numbers

LEVELS, TOP_KS, SIZES = (2, 3, 4, 6, 8), (2, 4, 10), (4, 8, 12, 16, 24, 32, 48, 59)
MOST_PROMPTS = 60  #: that a grid is replayed on; the best is then replayed on all
UNLIKELY = -1e9


@dataclass(frozen=True)
class DynamicCandidate:
    """A dynamic tree with what is expected of it."""

    shape: DynamicShape
    replay: Replay
    step: Estimate | None
    batch: int

    @property
    def tokens_per_s(self) -> float | None:
        """None without costs."""
        return None if self.step is None else 1000 * self.batch * self.replay.acceptance_length / self.step.ms

    def to_dict(self) -> dict[str, Any]:
        between = self.replay.interval()
        return {
            "tree": self.shape.to_json(), "levels": self.shape.depth, "top_k": self.shape.top_k,
            "num_nodes": self.shape.num_nodes, "expected_acceptance_length": self.replay.acceptance_length,
            "acceptance_interval": None if between is None else {"low": between.low, "high": between.high},
            "step_ms": None if self.step is None else self.step.ms, "expected_tokens_per_s": self.tokens_per_s,
            "extrapolated": self.step is not None and self.step.extrapolated,
            **three_numbers(self.shape.depth, self.shape.top_k, self.shape.num_nodes),
        }  # fmt: skip


def growth_of(shape: DynamicShape, parallel: bool) -> Growth:
    """What drafting it depends on: `top_k` nodes are extended at every level but the last, or none where all levels
    come at once.
    """
    return Growth(shape.depth, 0 if parallel else shape.top_k * (shape.depth - 1), shape.num_nodes)


def drafted_of(calibration: Calibration) -> list[Drafted | Independent]:
    """What was drafted along each answer, ready to be replayed."""
    kind = Independent if calibration.parallel else Drafted
    return [kind.of(walk, calibration.shape) for walk in calibration.walks]


def best_dynamic(
    calibration: Calibration,
    cost: CostCurve,
    nodes: int,
    batch: int,
    context: int,
    told: Callable[[int], None] = lambda tried: None,
) -> DynamicCandidate:
    """The fastest of a grid of dynamic trees of at most `nodes` nodes; `told` how many were tried at each. What is
    expected of it is what the grid's choice reaches on answers it was not made by.

    Raises HeadwayError when none is possible.
    """
    shapes = possible(calibration.shape.max_depth, nodes)
    if not shapes:
        raise HeadwayError(f"No dynamic tree has {nodes} nodes; allow more.")
    known = drafted_of(calibration)
    some = range(0, len(known), max(1, len(known) // MOST_PROMPTS))
    steps = {shape: cost.step(growth_of(shape, calibration.parallel), batch, context) for shape in shapes}
    tried: dict[DynamicShape, dict[int, Replay]] = {}
    for number, shape in enumerate(shapes):
        told(number)
        tried[shape] = {answer: replay_lengths([known[answer].accepted(shape)]) for answer in some}

    def chosen(without: range) -> DynamicShape:
        """The fastest on some answers, without those of a part."""
        def speed(shape: DynamicShape) -> float:
            replayed = joined(one for answer, one in tried[shape].items() if answer not in without)
            return replayed.acceptance_length / steps[shape].ms

        return max(shapes, key=speed)

    best = chosen(range(0))
    choices = dict.fromkeys(range(len(known)), best)
    for part in folds(len(known)):
        choices |= dict.fromkeys(part, chosen(part))
    replayed = joined(replay_lengths([one.accepted(choices[answer])]) for answer, one in enumerate(known))
    step = mixed([steps[choice] for choice in choices.values()], replayed.steps)
    return DynamicCandidate(best, replayed, step, batch)


def expected_dynamic(
    calibration: Calibration, shape: DynamicShape, cost: CostCurve | None, batch: int, context: int
) -> DynamicCandidate:
    """What is expected of any dynamic tree, as far as the drafted levels show it. Raises HeadwayError for a drafter
    that cannot grow one.
    """
    if not calibration.conditions.get("drafter", {}).get("grows"):
        raise HeadwayError("The drafter that was calibrated can't grow trees; compare with static ones.")
    cut = shape.cut(calibration.shape.max_depth)
    if not isinstance(cut, DynamicShape):
        raise HeadwayError("The calibration holds no drafted level; calibrate with a depth of 1 or more.")
    replayed = replay_lengths([one.accepted(cut) for one in drafted_of(calibration)])
    step = None if cost is None else cost.step(growth_of(cut, calibration.parallel), batch, context)
    return DynamicCandidate(cut, replayed, step, batch)


def possible(max_depth: int, nodes: int) -> list[DynamicShape]:
    """The grid, without what can't be."""
    found = []
    for levels in LEVELS:
        for top_k in TOP_KS:
            for size in SIZES:
                if levels <= max_depth and levels <= size <= min(nodes, top_k + (levels - 1) * top_k**2):
                    found.append(DynamicShape(levels, top_k, size))
    return found


@dataclass(frozen=True)
class Drafted:
    """What was drafted along one answer. bool [T, N]: whether a node came true; float [T, N]: the logarithm of the
    product of probabilities along its path.
    """

    tree: TreeShape
    right: NDArray[np.bool_]
    total: NDArray[np.float64]

    @classmethod
    def of(cls, walk: Walk, tree: TreeShape) -> Drafted:
        ranks = whole(walk)
        right = np.ones((len(ranks), tree.num_nodes + 1), dtype=bool)  # by column
        for column, path in enumerate(tree.paths, start=1):
            right[:, column] = right[:, tree.parents[column]] & (ranks[:, len(path) - 1] == path[-1])
        return cls(tree, right[:, 1:], _path_scores(tree, probability(walk.confidence[: len(ranks)])))

    def accepted(self, shape: DynamicShape) -> NDArray[np.int64]:
        """[T]: guesses that a step with this dynamic tree accepts; a node is kept with its ancestors only."""
        found: NDArray[np.int64] = (self.right & self._kept(shape)).sum(axis=1)
        return found

    def _kept(self, shape: DynamicShape) -> NDArray[np.bool_]:
        """bool [T, N]: the nodes that stay: of all that are offered the likeliest paths."""
        tree, total = self.tree, self.total
        offered = np.zeros(total.shape, dtype=bool)
        frontier = np.ones((len(total), tree.num_nodes + 1), dtype=bool)  # by column; the root is extended at first
        for level in range(1, shape.depth + 1):
            places = [i for i, path in enumerate(tree.paths) if len(path) == level and path[-1] < shape.top_k]
            if not places:
                break
            parents = [tree.parents[place + 1] for place in places]
            offered[:, places] = frontier[:, parents] & (total[:, places] > UNLIKELY)
            frontier = np.zeros_like(frontier)
            chosen = _top(np.where(offered[:, places], total[:, places], UNLIKELY), shape.top_k)
            frontier[:, [place + 1 for place in places]] = chosen
        return _top(np.where(offered, total, UNLIKELY), shape.num_nodes)


@dataclass(frozen=True)
class Independent:
    """What was drafted along one answer by a drafter whose candidates do not depend on the path. ranks int64 [T, K];
    scores float [T, K, W]: log-probabilities of the candidates of each depth, likeliest first.
    """

    ranks: torch.Tensor
    scores: torch.Tensor

    @classmethod
    def of(cls, walk: Walk, tree: TreeShape) -> Independent:
        ranks, place = whole(walk), {path: number for number, path in enumerate(tree.paths)}
        probs = probability(walk.confidence[: len(ranks)])
        columns = [[place[(*(0,) * d, rank)] for rank in range(min(tree.widths))] for d in range(tree.max_depth)]
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.nan_to_num(np.log(probs[:, columns]), nan=UNLIKELY, neginf=UNLIKELY)
        return cls(torch.from_numpy(ranks.astype(np.int64)), torch.from_numpy(scores))

    def accepted(self, shape: DynamicShape) -> NDArray[np.int64]:
        """[T]: guesses that a step with this dynamic tree accepts: the tree is grown and the text walked through it."""
        count, levels = len(self.ranks), min(shape.depth, self.scores.shape[1])
        at = torch.zeros(count, dtype=torch.int64)
        accepted = torch.zeros(count, dtype=torch.int64)
        if not count:
            return accepted.numpy()
        scores = self.scores[:, :levels, : shape.top_k]
        names = torch.arange(scores.shape[2]).expand(scores.shape)  # tokens are ranks
        tree = most_likely(at, offers_of(names, scores, shape.num_nodes), shape, None).tree
        going = torch.ones(count, dtype=torch.bool)
        for depth in range(levels):
            right = (tree.parents == at[:, None]) & (tree.tokens == self.ranks[:, depth : depth + 1])
            going = going & right.any(dim=1)
            at = torch.where(going, right.to(torch.uint8).argmax(dim=1), at)
            accepted += going
        return accepted.numpy()


def _path_scores(drafted: TreeShape, probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """[T, N]: the logarithm of the product of probabilities along each path."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.nan_to_num(np.log(probs), nan=UNLIKELY, neginf=UNLIKELY) - TIE_BREAK
    total = own.copy()
    for place, parent in enumerate(drafted.parents[1:]):
        if parent > 0:
            total[:, place] += total[:, parent - 1]
    return total


def _top(scores: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """The `count` greatest of each row that are likely at all."""
    if scores.shape[1] > count:
        bar = -np.partition(-scores, count - 1, axis=1)[:, count - 1 : count]
        return (scores >= bar) & (scores > UNLIKELY)
    likely: NDArray[np.bool_] = scores > UNLIKELY
    return likely
