"""Drafting with Medusa heads: every head names its best tokens, and a tree says which of them hang under which.

All heads look at the same hidden state, the one that predicted the root, so the candidates of a depth are the same
under every parent. The tree is a static one, or the most likely paths of each step. Knows nothing of losses or of
acceptance.
"""

from __future__ import annotations

import torch

from backend.drafters.base import Draft, DraftContext, Stateless, tree_to_fill
from backend.drafters.best_first import grow_best_first
from backend.drafters.growing import DynamicShape
from backend.drafters.independent import fill_static
from backend.drafters.medusa.model import HeadsForDrafting
from backend.drafters.plain.drafter import root_draft
from backend.trees import TreeShape


class MedusaDrafter(Stateless):
    """Fills trees from Medusa heads. Keeps no state per row."""

    family = "medusa"

    def __init__(
        self,
        name: str,
        heads: HeadsForDrafting,
        shape: TreeShape,
        sampled: bool = False,
        dynamic: DynamicShape | None = None,
    ) -> None:
        """`dynamic`, where given, is what grows; `shape` is then only its largest size, and siblings are chosen."""
        config = heads.config
        count = config.num_heads
        self.shape = tree_to_fill(name, shape, dynamic, config.output_rows, count, f"has {count} heads")
        self.name, self.heads, self.dynamic = name, heads, dynamic
        self.sampled = sampled and dynamic is None

    def with_shape(self, shape: TreeShape) -> MedusaDrafter:
        return MedusaDrafter(self.name, self.heads, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> MedusaDrafter:
        """The same heads, filling the likeliest tree of each step; see best_first.py. Raises HeadwayError when it is
        deeper than there are heads.
        """
        return MedusaDrafter(self.name, self.heads, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> MedusaDrafter:
        return MedusaDrafter(self.name, self.heads, self.shape, sampled, self.dynamic)

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        """One tree a row."""
        depth = min(self.shape.max_depth, context.max_depth)
        if depth < 1:
            return root_draft(context)
        scores = self.heads(context.hidden, depth)  # [K, B, Vd]
        vocabulary = None if self.heads.config.draft_vocab_size is None else self.heads.token_map
        if self.dynamic is not None:
            return grow_best_first(context.roots, scores, self.dynamic, vocabulary)
        chance = context.generator if self.sampled else None
        return fill_static(context.roots, scores, self.shape.cut(depth), vocabulary, context.temperature, chance)
