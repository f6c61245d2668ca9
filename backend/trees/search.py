"""The best static tree for measured hits, and how long it is expected to accept. Knows rates and counts, no model.

A node's value is the chance that its whole path is right. The expected acceptance length of a tree is 1 + the sum of
its nodes' values, since the accepted path is a prefix and its length is the number of right nodes (at most one node a
depth is right).

Greedy growth is optimal: a child's value never exceeds its parent's, so the N most valuable nodes of all always form a
tree, and taking the most valuable neighbour N times takes exactly those. Compare Medusa (arXiv 2401.10774), section
2.3.3.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from backend.trees.shapes import Path, TreeShape

HitRates = Sequence[Sequence[float]]  # [depth][rank], marginal: rate of "the label has this rank at this depth"


def expected_acceptance_length(shape: TreeShape, hits: HitRates) -> float:
    """Tokens a step with this tree, bonus included, if depths were independent. A path beyond the measured ranks is
    worth 0.
    """
    return 1.0 + sum(_independent(path, hits) for path in shape.paths)


def best_tree(hits: HitRates, num_nodes: int, max_depth: int | None = None) -> TreeShape:
    """The tree of at most `num_nodes` drafted nodes with the longest expected acceptance if depths were independent.

    Nodes that are never right are left out, so the tree may be smaller.
    """
    depth = len(hits) if max_depth is None else min(max_depth, len(hits))
    ranks = max((len(row) for row in hits), default=0)
    return _grow(lambda path: _independent(path, hits), num_nodes, depth, ranks)


def best_tree_from_ranks(ranks: Tensor, num_nodes: int, max_rank: int = 10, max_depth: int | None = None) -> TreeShape:
    """The same without assuming independence, from the joint ranks of held-out positions.

    Args:
        ranks: int64 [T, K], rank of the right token at each depth; max_rank or more is a miss; negative is unknown, and
            such positions are left out.
    """
    values = _joint_values(ranks, max_rank)
    depth = ranks.shape[1] if max_depth is None else min(max_depth, ranks.shape[1])
    return _grow(lambda path: values.get(path, 0.0), num_nodes, depth, max_rank)


def acceptance_length_from_ranks(shape: TreeShape, ranks: Tensor, max_rank: int = 10) -> float:
    """Mean acceptance length that `shape` would have had on these positions (greedy, each taken as a step's start)."""
    values = _joint_values(ranks, max_rank)
    return 1.0 + sum(values.get(path, 0.0) for path in shape.paths)


def _independent(path: Path, hits: HitRates) -> float:
    value = 1.0
    for depth, rank in enumerate(path):
        known = depth < len(hits) and rank < len(hits[depth])
        value *= hits[depth][rank] if known else 0.0
    return value


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


def _grow(value: Callable[[Path], float], num_nodes: int, max_depth: int, max_rank: int) -> TreeShape:
    chosen: list[Path] = []
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
    while heap and len(chosen) < num_nodes:
        _, _, path = heapq.heappop(heap)
        chosen.append(path)
        offer(path)
    return TreeShape(tuple(chosen))
