"""Drafting with Medusa heads: every head names its best tokens, and a static tree says which of them hang under which.

All heads look at the same hidden state, the one that predicted the root, so the candidates of a depth are the same
under every parent. Knows nothing of losses or of acceptance.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.acceptance import DraftDistribution, sample_without_replacement
from backend.drafters.base import Draft, DraftContext, Stateless
from backend.drafters.medusa.model import HeadsForDrafting
from backend.drafters.plain.drafter import root_draft
from backend.errors import HeadwayError
from backend.trees import DraftTree, TreeShape


@dataclass(frozen=True)
class _Plan:
    """How a static tree is filled: for every column the place of its token among [root, candidates of depth 1, of depth
    2, ...].
    """

    shape: TreeShape
    width: int  #: candidates taken from every head
    slots: Tensor  #: int64 [M]
    inner: Tensor  #: int64 [M], head that the children of a column come from


def plan_for(shape: TreeShape, sampled: bool, device: torch.device) -> _Plan:
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


class MedusaDrafter(Stateless):
    """Fills a static tree from Medusa heads. Keeps no state per row."""

    family = "medusa"

    def __init__(self, name: str, heads: HeadsForDrafting, shape: TreeShape, sampled: bool = False) -> None:
        config = heads.config
        if shape.max_depth > config.num_heads:
            raise HeadwayError(
                f"The tree is {shape.max_depth} deep, but {name} has {config.num_heads} heads; "
                f"choose a tree of depth {config.num_heads} or less."
            )
        if max(shape.widths, default=0) > config.output_rows:
            raise HeadwayError(
                f"The tree is wider than the {config.output_rows} tokens {name} can draft; make it narrower."
            )
        self.name, self.heads, self.shape, self.sampled = name, heads, shape, sampled
        self._plans: dict[tuple[int, bool], _Plan] = {}

    def with_shape(self, shape: TreeShape) -> MedusaDrafter:
        return MedusaDrafter(self.name, self.heads, shape, self.sampled)

    def with_sampled(self, sampled: bool) -> MedusaDrafter:
        return MedusaDrafter(self.name, self.heads, self.shape, sampled)

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        """One tree a row. Sampled siblings stay exact although all parents of a depth share them.

        Verification follows one path, so of each depth it looks at the children of one node only. The draws of a depth
        depend on nothing but the root's state, neither on the draws of other depths nor on which node was reached;
        given the node reached, its children are therefore fresh draws without replacement from that depth's
        distribution, as the rule demands.
        """
        depth = min(self.shape.max_depth, context.max_depth)
        if depth < 1:
            return root_draft(context)
        draw = self.sampled and context.temperature > 0
        plan = self._plan(depth, draw, context.tokens.device)
        scores = self.heads(context.hidden, depth).float()  # [K, B, Vd]
        if draw:
            probs = torch.softmax(scores / context.temperature, dim=-1)
            best = sample_without_replacement(probs, plan.width, context.generator)  # [K, B, W]
            chance = probs.gather(-1, best)
        else:
            value, best = scores.topk(plan.width, dim=-1)
            chance = torch.exp(value - scores.logsumexp(dim=-1, keepdim=True))
        tokens = _lay_out(context.roots, self.heads.token_map[best], plan)
        nan = torch.full_like(chance[0, :, 0], float("nan"))
        tree = DraftTree.from_shape(plan.shape, tokens)
        if not draw:
            return Draft(tree, _lay_out(nan, chance, plan))
        full = self.heads.config.draft_vocab_size is None
        vocabulary = None if full else self.heads.token_map
        q = DraftDistribution(probs.transpose(0, 1), plan.inner, vocabulary, plan.shape.max_children)
        return Draft(tree, _lay_out(nan, chance, plan), q)

    def _plan(self, depth: int, draw: bool, device: torch.device) -> _Plan:
        key = (depth, draw)
        if key not in self._plans:
            self._plans[key] = plan_for(self.shape.cut(depth), draw, device)
        return self._plans[key]


def _lay_out(root: Tensor, candidates: Tensor, plan: _Plan) -> Tensor:
    """root [B] and candidates [K, B, W] -> values by column, [B, M]."""
    flat = candidates.transpose(0, 1).reshape(root.shape[0], -1)  # [B, K * W]
    return torch.cat([root[:, None], flat], dim=1)[:, plan.slots]
