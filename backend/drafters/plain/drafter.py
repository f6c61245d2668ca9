"""No drafter: every step verifies the root alone, which is plain decoding. Keeps no state and knows no model."""

from __future__ import annotations

import torch

from backend.drafters.base import Draft, DraftContext, Stateless
from backend.errors import HeadwayError
from backend.trees import DraftTree, TreeShape


class PlainDrafter(Stateless):
    """Proposes trees without a drafted node."""

    family = "none"
    name = "none"
    sampled = False
    shape = TreeShape(())

    def with_shape(self, shape: TreeShape) -> PlainDrafter:
        if shape.num_nodes:
            raise HeadwayError(
                "Plain decoding drafts nothing, so it takes no tree; leave the tree out or choose a drafter."
            )
        return self

    def with_sampled(self, sampled: bool) -> PlainDrafter:
        return self

    def draft(self, context: DraftContext) -> Draft:
        return root_draft(context)


def root_draft(context: DraftContext) -> Draft:
    """A draft without a drafted node, for rows that need none: tree [B, 1]."""
    tree = DraftTree.root_only(context.roots)
    return Draft(tree, torch.full_like(tree.tokens, float("nan"), dtype=torch.float32))
