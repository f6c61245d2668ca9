"""The best static trees for measured hits, and how long they are expected to accept. Knows rates and counts, no model.

A node's value is the chance that its whole path is right. The expected acceptance length of a tree is 1 + the sum of
its nodes' values, since the accepted path is a prefix and its length is the number of right nodes (at most one node a
depth is right).

Greedy growth is optimal: a child's value never exceeds its parent's, so the N most valuable nodes of all always form a
tree, and taking the most valuable neighbour N times takes exactly those. Every rank of a taken node is a neighbour, a
tree may leave ranks out, so it does not matter whether rates fall along the ranks. One growth therefore gives the best
tree of every size. Compare Medusa (arXiv 2401.10774), section 2.3.3.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from backend.trees.shapes import Path, TreeShape

HitRates = Sequence[Sequence[float]]  # [depth][rank], marginal: rate of "the label has this rank at this depth"


@dataclass(frozen=True)
class HitTable:
    """How often a rank is right.

    Args:
        hits: [depth][rank], when nothing else is known of the path.
        conditional: path -> [rank], rates of the nodes under that path, where it was measured; wins over `hits`.
    """

    hits: HitRates
    conditional: Mapping[Path, Sequence[float]] = field(default_factory=dict)

    def value(self, path: Path) -> float:
        """The chance that the whole path is right; 0 beyond what was measured."""
        value = 1.0
        for depth, rank in enumerate(path):
            rates = self.conditional.get(path[:depth])
            if rates is None:
                rates = self.hits[depth] if depth < len(self.hits) else ()
            value *= rates[rank] if rank < len(rates) else 0.0
        return value

    @property
    def max_depth(self) -> int:
        return max([len(self.hits), *(len(path) + 1 for path in self.conditional)])

    @property
    def max_rank(self) -> int:
        """Ranks that were measured at some depth."""
        return max([0, *map(len, self.hits), *map(len, self.conditional.values())])


@dataclass(frozen=True)
class TreeCurve:
    """The best tree of every size, each the last one with one node more.

    Args:
        order: the nodes in the order in which they are worth adding.
        values: the chance that each node's whole path is right.
    """

    order: tuple[Path, ...]
    values: tuple[float, ...]

    @property
    def num_nodes(self) -> int:
        return len(self.order)

    @cached_property
    def lengths(self) -> tuple[float, ...]:
        """Expected acceptance length with 0, 1, 2, ... nodes."""
        found = [1.0]
        for value in self.values:
            found.append(found[-1] + value)
        return tuple(found)

    def shape(self, num_nodes: int) -> TreeShape:
        return TreeShape(self.order[:num_nodes])


def tree_curve(table: HitTable, num_nodes: int, max_depth: int | None = None) -> TreeCurve:
    """All best trees of up to `num_nodes` drafted nodes. Nodes that are never right are left out.

    With `conditional` rates a node's chance is the product along its own path; without, depths count as independent.
    """
    depth = table.max_depth if max_depth is None else min(max_depth, table.max_depth)
    return _grow(table.value, num_nodes, depth, table.max_rank)


def curve_of_values(values: Mapping[Path, float], num_nodes: int, max_depth: int, max_rank: int) -> TreeCurve:
    """All best trees when the chance of every path is known by itself, and 0 for those that are not named.

    A child may not be worth more than its parent.
    """
    return _grow(lambda path: values.get(path, 0.0), num_nodes, max_depth, max_rank)


def expected_acceptance_length(shape: TreeShape, hits: HitRates) -> float:
    """Tokens a step with this tree, bonus included, if depths were independent. A path beyond the measured ranks is
    worth 0.
    """
    return 1.0 + sum(map(HitTable(hits).value, shape.paths))


def best_tree(hits: HitRates, num_nodes: int, max_depth: int | None = None) -> TreeShape:
    """The tree of at most `num_nodes` drafted nodes with the longest expected acceptance if depths were independent.

    Nodes that are never right are left out, so the tree may be smaller.
    """
    return _whole(tree_curve(HitTable(hits), num_nodes, max_depth))


def best_tree_from_ranks(ranks: Tensor, num_nodes: int, max_rank: int = 10, max_depth: int | None = None) -> TreeShape:
    """The same without assuming independence, from the joint ranks of held-out positions.

    Args:
        ranks: int64 [T, K], rank of the right token at each depth; max_rank or more is a miss; negative is unknown, and
            such positions are left out.
    """
    values = _joint_values(ranks, max_rank)
    depth = ranks.shape[1] if max_depth is None else min(max_depth, ranks.shape[1])
    return _whole(curve_of_values(values, num_nodes, depth, max_rank))


def acceptance_length_from_ranks(shape: TreeShape, ranks: Tensor, max_rank: int = 10) -> float:
    """Mean acceptance length that `shape` would have had on these positions (greedy, each taken as a step's start)."""
    values = _joint_values(ranks, max_rank)
    return 1.0 + sum(values.get(path, 0.0) for path in shape.paths)


def _whole(curve: TreeCurve) -> TreeShape:
    return curve.shape(curve.num_nodes)


def _joint_values(ranks: Tensor, max_rank: int) -> dict[Path, float]:
    """Share of positions at which a path is right, for every path that ever was."""
    known = ranks[(ranks >= 0).all(dim=1)]
    values: dict[Path, float] = {}
    for depth in range(1, known.shape[1] + 1):
        prefix = known[:, :depth]
        alive = prefix[(prefix < max_rank).all(dim=1)]
        if len(alive) == 0:
            break
        paths, counts = torch.unique(alive, dim=0, return_counts=True)
        values |= {tuple(p): c / len(known) for p, c in zip(paths.tolist(), counts.tolist(), strict=True)}
    return values


def _grow(value: Callable[[Path], float], num_nodes: int, max_depth: int, max_rank: int) -> TreeCurve:
    order: list[Path] = []
    values: list[float] = []
    # Ties go to the shorter, then the lexicographically smaller path, so that the result does not depend on the order
    # of work.
    heap: list[tuple[float, int, Path]] = []

    def offer(parent: Path) -> None:
        if len(parent) < max_depth:
            for rank in range(max_rank):
                path = (*parent, rank)
                if (worth := value(path)) > 0:
                    heapq.heappush(heap, (-worth, len(path), path))

    offer(())
    while heap and len(order) < num_nodes:
        worth, _, path = heapq.heappop(heap)
        order.append(path)
        values.append(-worth)
        offer(path)
    return TreeCurve(tuple(order), tuple(values))
