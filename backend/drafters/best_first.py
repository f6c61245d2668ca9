"""The N most likely paths through independent positions, as a draft tree that is grown anew in every step.

Some drafters say in one pass what stands at each depth, whatever stands before it: Medusa's heads, parallel heads of
MTP, block drafters. The chance of a path is then the product of its tokens' chances, and the best tree of N nodes is
simply the N best paths. Knows no model; children are chosen, never drawn, so the p(x) rule is the exact one.

The N best are found level by level, without a heap. A node among the N best has all its ancestors among the N best of
their depths, because no child is likelier than its parent. And of the N best parents of a depth, in order, the i-th
(from 1) with the r-th candidate can only be among the N best when i * r <= N: all pairs of a smaller i and r are at
least as likely. So each depth looks at about N ln N pairs, and no step runs Python for a node. The obvious version, a
heap, is `slow_best_paths`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from backend.drafters.base import Draft
from backend.drafters.growing import TIE_BREAK, DynamicShape, Offers, most_likely


def grow_best_first(roots: Tensor, scores: Tensor, shape: DynamicShape, token_map: Tensor | None) -> Draft:
    """The likeliest tree for roots int64 [B], given the scores of independent positions [D, B, Vd]: one of `num_nodes`
    nodes at most D deep, from the `top_k` best tokens of each position.

    Fewer positions than the shape is deep serve rows that are about to end. token_map int64 [Vd]: target token of each
    draft token, None when they are the same.
    """
    levels = min(shape.depth, len(scores))
    own, best = torch.log_softmax(scores[:levels].float(), dim=-1).topk(min(shape.top_k, scores.shape[-1]), dim=-1)
    return most_likely(roots, offers_of(best.transpose(0, 1), own.transpose(0, 1), shape.num_nodes), shape, token_map)


def offers_of(tokens: Tensor, log_probs: Tensor, num_nodes: int) -> list[Offers]:
    """Of every depth the `num_nodes` likeliest paths that end there, or all where there are fewer.

    tokens int64 [B, D, W] and log_probs float [B, D, W], likeliest first: the candidates of each position. See
    growing.Offers.
    """
    first = slice(0, num_nodes)
    total = log_probs[:, 0, first] - TIE_BREAK
    offers: list[Offers] = [
        (tokens[:, 0, first], log_probs[:, 0, first], total, torch.full_like(tokens[:, 0, first], -1))
    ]
    before = 0  # number of the last level's first offer
    for depth in range(1, tokens.shape[1]):
        parents, ranks = _pairs(total.shape[1], tokens.shape[2], num_nodes, str(tokens.device))
        candidates = total[:, parents] + log_probs[:, depth, ranks] - TIE_BREAK  # [B, P]
        found = candidates.topk(min(num_nodes, len(parents)), dim=-1)
        rank = ranks[found.indices]
        picked, own = tokens[:, depth].gather(1, rank), log_probs[:, depth].gather(1, rank)
        offers.append((picked, own, found.values, before + parents[found.indices]))
        before, total = before + total.shape[1], found.values
    return offers


@lru_cache(maxsize=256)
def _pairs(parents: int, ranks: int, num_nodes: int, device: str) -> tuple[Tensor, Tensor]:
    """(parent, rank) of the pairs that can be among the `num_nodes` best, both int64 [P], counted from 0."""
    pairs = [(i, r) for i in range(parents) for r in range(min(ranks, num_nodes // (i + 1)))]
    both = torch.tensor(pairs, dtype=torch.int64, device=device)
    return both[:, 0], both[:, 1]


def slow_best_paths(log_probs: Sequence[Sequence[float]], num_nodes: int) -> dict[tuple[int, ...], float]:
    """The `num_nodes` likeliest paths of ranks with their log-probabilities, taken from a heap one by one."""
    chosen: dict[tuple[int, ...], float] = {}
    heap: list[tuple[float, tuple[int, ...]]] = [(-value, (rank,)) for rank, value in enumerate(log_probs[0])]
    heapq.heapify(heap)
    while heap and len(chosen) < num_nodes:
        lost, path = heapq.heappop(heap)
        chosen[path] = -lost
        if len(path) < len(log_probs):
            for rank, value in enumerate(log_probs[len(path)]):
                heapq.heappush(heap, (lost - value, (*path, rank)))
    return chosen
