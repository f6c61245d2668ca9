"""Drafting no more than pays: shallower in larger batches, and along a chain only as far as the confidence carries.

Wraps any drafter. What decides comes from tuning (tuning/stopping.py, schedules by batch). Stopping by confidence looks
at the guesses themselves, so it is for chosen children only; how deep a batch drafts is known before anything is drawn
and is exact either way.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from backend.drafters.base import Around, Draft, DraftContext, Drafter
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, DraftTree, TreeShape
from backend.trees.tree import PADDING


def refuse_sampled(sampled: bool) -> None:
    """Raises HeadwayError for stops by confidence with sampled children."""
    if sampled:
        raise HeadwayError(
            "Stopping by confidence needs chosen children: leaving out sampled ones by their own probability would "
            "change the output; switch sampled siblings off."
        )


class AdaptiveDrafter(Around):
    """`inner`, drafting no more of `adaptive` than pays. Raises HeadwayError for a shape that it can't fill, and for
    stops with sampled children.
    """

    def __init__(self, inner: Drafter, adaptive: AdaptiveShape) -> None:
        if adaptive.stops:
            refuse_sampled(inner.sampled)
        super().__init__(inner.with_shape(adaptive.shape))
        self.adaptive = adaptive

    @property
    def inner(self) -> Drafter:
        return self._inner

    def with_shape(self, shape: TreeShape) -> AdaptiveDrafter:
        return AdaptiveDrafter(self._inner, self.adaptive.of(shape))

    def with_sampled(self, sampled: bool) -> AdaptiveDrafter:
        return AdaptiveDrafter(self._inner.with_sampled(sampled), self.adaptive)

    def draft(self, context: DraftContext) -> Draft:
        # Asked with depth 0, drafters that keep a cache still read what was committed.
        depth = min(context.max_depth, self._depth_for(len(context.tokens)))
        made = self._inner.draft(replace(context, max_depth=depth))
        return self._stopped(made) if self.adaptive.stops and made.tree.width > 1 else made

    def _depth_for(self, rows: int) -> int:
        reached = [depth for first, depth in self.adaptive.depths if first <= rows]
        return reached[-1] if reached else self.shape.max_depth

    def _stopped(self, made: Draft) -> Draft:
        """Every row's chain up to where the confidence no longer carries; columns that no row uses are cut off."""
        tree, levels = made.tree, made.tree.width - 1
        carried = made.draft_prob[:, 1:].nan_to_num(1.0).cumprod(dim=1)  # [B, D]
        bars = torch.tensor([*self.adaptive.stops, *([0.0] * levels)][: levels - 1], device=carried.device)
        going = (carried[:, : levels - 1] >= bars).cumprod(dim=1)
        kept = torch.minimum(1 + going.sum(dim=1), tree.num_nodes)  # [B]
        # Where asking is free, nobody verifies padding; elsewhere it would make the host wait for the device.
        width = 1 + (int(kept.max()) if kept.device.type == "cpu" else levels)
        columns = torch.arange(width, device=kept.device)
        parents = torch.where(columns <= kept[:, None], tree.parents[:, :width], PADDING)
        shorter = DraftTree(tree.tokens[:, :width], parents, kept, width - 1)
        return Draft(shorter, made.draft_prob[:, :width])
