"""Drafting with a P-EAGLE head: the pairs committed since the last draft and all places go through it in one pass.

Each layer has a cache of the committed pairs; places are thrown away after every step. The tree is filled from
distributions that do not depend on each other: a static one, or the likeliest paths (best_first.py). Knows no loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.base import Draft, DraftContext, tree_to_fill
from backend.drafters.best_first import grow_best_first
from backend.drafters.growing import DynamicShape
from backend.drafters.independent import fill_static
from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.cache import LayerCache, move_all
from backend.drafters.layer.fresh import fresh_of, prompt_parts
from backend.drafters.peagle.model import PeagleHead
from backend.drafters.plain.drafter import root_draft
from backend.trees import TreeShape

PROMPT_CHUNK = 512  #: prompt pairs read at once


class PeagleDrafter:
    """Drafts with a `PeagleHead`; rows are those given to `start`, in that order."""

    family = "peagle"

    def __init__(
        self,
        name: str,
        model: PeagleHead,
        shape: TreeShape,
        sampled: bool = False,
        dynamic: DynamicShape | None = None,
    ) -> None:
        """`dynamic`, where given, is what grows; `shape` is then only its largest size, and siblings are chosen."""
        count = model.config.num_positions
        self.shape = tree_to_fill(name, shape, dynamic, len(model.token_map), count, f"drafts {count} tokens at once")
        self.name, self.model, self.dynamic = name, model, dynamic
        self.sampled = sampled and dynamic is None
        self.reads = model.reads
        self._caches: list[LayerCache] = []

    def with_shape(self, shape: TreeShape) -> PeagleDrafter:
        return PeagleDrafter(self.name, self.model, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> PeagleDrafter:
        """The same head filling the likeliest tree of each step. Raises HeadwayError when it is deeper than trained."""
        return PeagleDrafter(self.name, self.model, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> PeagleDrafter:
        return PeagleDrafter(self.name, self.model, self.shape, sampled, self.dynamic)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def start(self, rows: int, capacity: int) -> None:
        room = capacity + self.shape.max_depth + 1  # pairs past a row's committed ones are written too
        like = self.model.embedding
        self._caches = [LayerCache(rows, room, layer.shape, like) for layer in self.model.stack]

    def replace_rows(self, rows: Sequence[int]) -> None:
        return None  # how many pairs a row has follows from its committed length

    def move_row(self, source: int, target: int) -> None:
        move_all(self._caches, source, target)

    @torch.no_grad()
    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """All pairs of the prompt but the last, which comes with the first draft."""
        for part in prompt_parts(tokens, states, PROMPT_CHUNK):
            entered = self.model.join(self.model.feature(part.states), part.tokens)
            self._read(slice(row, row + 1), part.columns, part.columns.shape[1], entered, part.filled, None)

    # -- drafting ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        depth = min(self.shape.max_depth, context.max_depth)
        outputs = self._block(context, max(depth, 1))  # [B, D, H]; committed pairs are read whatever is drafted
        if depth < 1:
            return root_draft(context)
        scores = self.model.scores(outputs).transpose(0, 1)  # [D, B, Vd]
        all_of_them = len(self.model.token_map) == self.model.vocab_size
        vocabulary = None if all_of_them else self.model.token_map
        if self.dynamic is not None:
            return grow_best_first(context.roots, scores, self.dynamic, vocabulary)
        chance = context.generator if self.sampled else None
        return fill_static(context.roots, scores, self.shape.cut(depth), vocabulary, context.temperature, chance)

    def _block(self, context: DraftContext, depth: int) -> Tensor:
        """What leaves the last layer at the pair before each row's root and at the places behind it: [B, depth, H]."""
        fresh = fresh_of(context)
        (batch, width), last = fresh.columns.shape, fresh.last  # last: the pair before the root
        inputs, residual = self.model.join(self.model.feature(fresh.states), fresh.tokens)
        place_inputs, place_residual = self.model.places()
        joined = (
            torch.cat([inputs, place_inputs.expand(batch, depth - 1, -1)], dim=1),
            torch.cat([residual, place_residual.expand(batch, depth - 1, -1)], dim=1),
        )
        places = last + torch.arange(1, depth, device=last.device)
        columns = torch.cat([fresh.columns, places], dim=1)
        outputs = self._read(slice(0, batch), columns, width, joined, fresh.filled, last)
        return torch.cat([fresh.newest(outputs), outputs[:, width:]], dim=1)

    def _read(
        self,
        rows: slice,
        columns: Tensor,
        pairs: int,
        entered: tuple[Tensor, Tensor],
        filled: int,
        last: Tensor | None,
    ) -> Tensor:
        """One pass over all layers: the first `pairs` of columns [B, T] are committed and cached, the others places.

        `entered`: what the first layer projects and its residual; `filled`: pairs there are afterwards in the longest
        row; `last` [B, 1]: the pair the places stand behind. Returns what leaves the last layer [B, T, H].
        """
        inputs, residual = entered
        seen = self._caches[0].columns_of(filled) <= columns[..., None]  # [B, T, S]
        if last is not None:
            seen = seen & (self._caches[0].columns_of(filled) <= last[..., None])
        count = columns.shape[1] - pairs
        # A place sees itself and the places before it; pairs see none.
        own = torch.ones(columns.shape[1], count, dtype=torch.bool, device=columns.device).tril(-pairs)[None]
        output = residual
        for number, (layer, cache) in enumerate(zip(self.model.stack, self._caches, strict=True)):
            if number:
                inputs, residual = self.model.enter(number, output)
            keys, values = layer.key_value(inputs, columns)
            cache.write(rows, columns[:, :pairs], keys[:, :, :pairs], values[:, :, :pairs])
            blocks = [cache.block(rows, filled, seen)]
            if count:
                blocks.append(KeyBlock(keys[:, :, pairs:], values[:, :, pairs:], own))
            output = layer.finish(residual, attend(layer.query(inputs, columns), blocks))
        return output
