"""Drafting no more than pays: shallower in larger batches, and along a chain only as far as the confidence carries.

Wraps any drafter. What decides comes from tuning (tuning/stopping.py, schedules by batch). Stopping by confidence looks
at the guesses themselves, so it is for chosen children only; how deep a batch drafts is known before anything is drawn
and is exact either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from backend.drafters.base import Around, Draft, DraftContext, Drafter
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, DraftTree, TreeShape, chain
from backend.trees.tree import PADDING


def refuse_sampled(sampled: bool) -> None:
    """Raises HeadwayError for stops by confidence with sampled children."""
    if sampled:
        raise HeadwayError(
            "Stopping by confidence needs chosen children: leaving out sampled ones by their own probability would "
            "change the output; switch sampled siblings off."
        )


def adapt(drafter: Drafter, tree: AdaptiveShape) -> AdaptiveDrafter:
    """A drafter with this tree. Raises HeadwayError for a shape it can't fill."""
    return AdaptiveDrafter(drafter.with_shape(tree.shape), tree.stops, dict(tree.depths))


class AdaptiveDrafter(Around):
    """`thresholds[d - 1]`: the product of the first d guesses' probabilities that a level d + 1 needs; none: no stops.
    `depths`: from how many rows on how deep is drafted; 0 drafts nothing. More rows than named take the last depth.

    Raises HeadwayError for thresholds on a tree that is no chain, or with sampled children.
    """

    def __init__(
        self, inner: Drafter, thresholds: Sequence[float] = (), depths: Mapping[int, int] | None = None
    ) -> None:
        if thresholds:
            refuse_sampled(inner.sampled)
            if inner.shape != chain(inner.shape.max_depth):
                raise HeadwayError("Stops by confidence work along a chain; choose a tree such as chain-4.")
        super().__init__(inner)
        self._thresholds, self._depths = tuple(thresholds), sorted((depths or {}).items())

    @property
    def adaptive(self) -> AdaptiveShape:
        """The tree as it may be asked for."""
        return AdaptiveShape(self.shape, self._thresholds, tuple(self._depths))

    @property
    def inner(self) -> Drafter:
        return self._inner

    def with_shape(self, shape: TreeShape) -> AdaptiveDrafter:
        return AdaptiveDrafter(self._inner.with_shape(shape), self._thresholds, dict(self._depths))

    def with_sampled(self, sampled: bool) -> AdaptiveDrafter:
        return AdaptiveDrafter(self._inner.with_sampled(sampled), self._thresholds, dict(self._depths))

    def draft(self, context: DraftContext) -> Draft:
        # Asked with depth 0, drafters that keep a cache still read what was committed.
        depth = min(context.max_depth, self._depth_for(len(context.tokens)))
        made = self._inner.draft(replace(context, max_depth=depth))
        return self._stopped(made) if self._thresholds and made.tree.width > 1 else made

    def _depth_for(self, rows: int) -> int:
        reached = [depth for first, depth in self._depths if first <= rows]
        return reached[-1] if reached else self.shape.max_depth

    def _stopped(self, made: Draft) -> Draft:
        """Every row's chain up to where the confidence no longer carries; columns that no row uses are cut off."""
        tree, levels = made.tree, made.tree.width - 1
        carried = made.draft_prob[:, 1:].nan_to_num(1.0).cumprod(dim=1)  # [B, D]
        bars = torch.tensor([*self._thresholds, *([0.0] * levels)][: levels - 1], device=carried.device)
        going = (carried[:, : levels - 1] >= bars).cumprod(dim=1)
        kept = torch.minimum(1 + going.sum(dim=1), tree.num_nodes)  # [B]
        # Where asking is free, nobody verifies padding; elsewhere it would make the host wait for the device.
        width = 1 + (int(kept.max()) if kept.device.type == "cpu" else levels)
        columns = torch.arange(width, device=kept.device)
        parents = torch.where(columns <= kept[:, None], tree.parents[:, :width], PADDING)
        shorter = DraftTree(tree.tokens[:, :width], parents, kept, width - 1)
        return Draft(shorter, made.draft_prob[:, :width])
