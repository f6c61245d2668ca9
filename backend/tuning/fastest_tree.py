"""The static tree that gives the most tokens a second on this machine: expected acceptance over measured time.

For each number of nodes the tree with the longest expected acceptance is grown from held-out ranks (trees/search.py);
then whole steps with each are timed in turns, and the quotient decides. Both halves are kept, so that a prediction can
be held against what a benchmark finds. Knows drafters and the loop; no family.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.base import Drafter
from backend.targets.target import Target
from backend.trees import TreeShape
from backend.trees.search import acceptance_length_from_ranks, best_tree_from_ranks

NODES = (2, 4, 6, 8, 10, 12, 15, 20, 25, 31)
ROUNDS, STEPS = 5, 6


@dataclass(frozen=True)
class TreeEstimate:
    """One candidate: the expected acceptance length, the median time of a step, and their quotient."""

    shape: TreeShape
    acceptance_length: float
    step_ms: float

    @property
    def tokens_per_s(self) -> float:
        return 1000 * self.acceptance_length / self.step_ms


def candidate_trees(ranks: Tensor, nodes: Sequence[int] = NODES) -> list[TreeShape]:
    """The best tree of each size, without repeats. ranks: int64 [T, K] as training leaves them."""
    return list(dict.fromkeys(best_tree_from_ranks(ranks, count) for count in nodes))


def estimate_trees(
    target: Target, drafter: Drafter, ranks: Tensor, text: Sequence[int], shapes: Sequence[TreeShape]
) -> list[TreeEstimate]:
    """Time steps with every shape in turns, behind the same `text` (token ids), and join them with the expected
    lengths.
    """
    times: dict[TreeShape, list[float]] = {shape: [] for shape in shapes}
    fillers = {shape: drafter.with_shape(shape) for shape in shapes}
    for number in range(ROUNDS + 1):
        for shape, filler in fillers.items():
            measured = _step_times(target, filler, text)
            if number:  # the first round warms up
                times[shape] += measured
    return [
        TreeEstimate(shape, acceptance_length_from_ranks(shape, ranks), statistics.median(times[shape]))
        for shape in shapes
    ]


def fastest(estimates: Sequence[TreeEstimate]) -> TreeEstimate:
    """The one with the most tokens a second; of equals the smaller tree."""
    return max(estimates, key=lambda one: (one.tokens_per_s, -one.shape.num_nodes))


def _step_times(target: Target, drafter: Drafter, text: Sequence[int]) -> list[float]:
    found: list[float] = []
    settings = DecodeSettings(max_new_tokens=(STEPS + 1) * (drafter.shape.max_depth + 1) + 1, ignore_eos=True)
    for record in decode(target, drafter, [text], settings, cancelled=lambda: len(found) >= STEPS):
        if isinstance(record, StepTrace):
            found.append(record.step_ms)
    return found
