"""Filling a static tree from positions that were scored independently of each other: Medusa's heads and their like.

The candidates of a depth are the same under every parent, so a tree is one gather. Knows no model and no loss; the tree
that is grown anew in every step from such scores is best_first.py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from backend.acceptance import DraftDistribution, sample_without_replacement
from backend.drafters.base import Draft
from backend.trees import DraftTree, TreeShape


@dataclass(frozen=True)
class _Plan:
    """How a static tree is filled: for every column the place of its token among [root, candidates of depth 1, of depth
    2, ...].
    """

    shape: TreeShape
    width: int  #: candidates taken from every position
    slots: Tensor  #: int64 [M]
    inner: Tensor  #: int64 [M], position that the children of a column come from


@lru_cache(maxsize=256)
def plan_for(shape: TreeShape, sampled: bool, device: str) -> _Plan:
    """Lay out `shape`. With sampled siblings the i-th child of any node takes the i-th draw, whatever rank the path
    names.

    A path names ranks that may leave gaps ([0] and [2] without [1]). For chosen candidates a gap is a choice like any
    other; among draws it would be an error, because the second draw, thrown away, has already shaped the third one's
    distribution.
    """
    ranks, seen = list(shape.ranks), [0] * len(shape.ranks)
    if sampled:
        for column, parent in enumerate(shape.parents[1:], start=1):
            ranks[column] = seen[parent]
            seen[parent] += 1
    width = 1 + max(ranks)
    slots = [0] + [1 + width * (d - 1) + r for d, r in zip(shape.depths[1:], ranks[1:], strict=True)]
    inner = [min(depth, shape.max_depth - 1) for depth in shape.depths]
    return _Plan(shape, width, torch.tensor(slots, device=device), torch.tensor(inner, device=device))


def fill_static(
    roots: Tensor,
    scores: Tensor,
    shape: TreeShape,
    token_map: Tensor | None,
    temperature: float,
    generator: torch.Generator | None,
) -> Draft:
    """One tree a row for roots int64 [B] and scores [D, B, Vd] of positions 1..D behind them, D the shape's depth.

    token_map int64 [Vd]: target token of each draft token, None when they are the same. With a generator (and a
    temperature above 0) siblings are drawn without replacement; without one the best are chosen.

    Sampled siblings stay exact although all parents of a depth share them. Verification follows one path, so of each
    depth it looks at the children of one node only. The draws of a depth depend on nothing but the root's state,
    neither on the draws of other depths nor on which node was reached; given the node reached, its children are
    therefore fresh draws without replacement from that depth's distribution, as the rule demands.
    """
    draw = generator is not None and temperature > 0
    plan, scores = plan_for(shape, draw, str(roots.device)), scores.float()
    if draw:
        probs = torch.softmax(scores / temperature, dim=-1)
        best = sample_without_replacement(probs, plan.width, generator)  # [D, B, W]
        chance = probs.gather(-1, best)
    else:
        value, best = scores.topk(plan.width, dim=-1)
        chance = torch.exp(value - scores.logsumexp(dim=-1, keepdim=True))
    tokens = _lay_out(roots, best if token_map is None else token_map[best], plan)
    nan = torch.full_like(chance[0, :, 0], float("nan"))
    tree = DraftTree.from_shape(shape, tokens)
    if not draw:
        return Draft(tree, _lay_out(nan, chance, plan), scores=scores, token_map=token_map)
    q = DraftDistribution(probs.transpose(0, 1), plan.inner, token_map, shape.max_children)
    return Draft(tree, _lay_out(nan, chance, plan), q)


def _lay_out(root: Tensor, candidates: Tensor, plan: _Plan) -> Tensor:
    """root [B] and candidates [D, B, W] -> values by column, [B, M]."""
    flat = candidates.transpose(0, 1).reshape(root.shape[0], -1)  # [B, D * W]
    return torch.cat([root[:, None], flat], dim=1)[:, plan.slots]
