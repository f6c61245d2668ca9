"""Drafting with a decoder layer over (feature, token) pairs: EAGLE and its kin, static and dynamic trees.

Each row has a cache of the pairs whose feature came from the target. Before drafting, the pairs committed since the
last draft are added; what the layer made of its own guesses is thrown away after every step, so nothing has to be taken
back. Knows no loss and no acceptance rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.drafters.base import Draft, DraftContext, tree_to_fill
from backend.drafters.growing import grow_dynamic, grow_static
from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.cache import LayerCache, move_all
from backend.drafters.layer.fresh import fresh_of, prompt_parts, read_newest
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.plain.drafter import root_draft
from backend.trees import DynamicShape, TreeShape

PROMPT_CHUNK = 2048  #: prompt pairs projected at once


class PairDrafter:
    """Drafts with a `PairModel`; rows are those given to `start`, in that order."""

    def __init__(
        self,
        family: str,
        name: str,
        model: PairModel,
        shape: TreeShape,
        sampled: bool = False,
        dynamic: DynamicShape | None = None,
    ) -> None:
        """`dynamic`, where given, is what grows; `shape` then only tells its largest size."""
        self.family, self.name, self.model, self.dynamic = family, name, model, dynamic
        self.shape = tree_to_fill(name, shape, dynamic, len(model.token_map))
        self.sampled = sampled and dynamic is None
        self.reads = model.reads
        self._caches: list[LayerCache] = []

    def with_shape(self, shape: TreeShape) -> PairDrafter:
        return PairDrafter(self.family, self.name, self.model, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> PairDrafter:
        """The same drafter growing its tree by its own confidence."""
        return PairDrafter(self.family, self.name, self.model, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> PairDrafter:
        return PairDrafter(self.family, self.name, self.model, self.shape, sampled, self.dynamic)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def start(self, rows: int, capacity: int) -> None:
        room = capacity + self.shape.max_depth + 1  # pairs past a row's committed ones are written too
        self._caches = [LayerCache(rows, room, self.model.layer.shape, self.model.embedding)]

    def replace_rows(self, rows: Sequence[int]) -> None:
        return None  # how many pairs a row has follows from its committed length

    def move_row(self, source: int, target: int) -> None:
        move_all(self._caches, source, target)

    @torch.no_grad()
    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """Keys and values of all pairs of the prompt but the last, which comes with the first draft."""
        for part in prompt_parts(tokens, states, PROMPT_CHUNK):
            inputs, _ = self.model.join(self.model.feature(part.states), part.tokens)
            keys, values = self.model.layer.key_value(inputs, part.columns)
            self._caches[0].write(slice(row, row + 1), part.columns, keys, values)

    # -- drafting ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        if context.max_depth < 1 or self.shape.num_nodes == 0:
            self._read_fresh(context)
            return root_draft(context)
        growth = _Growth(self.model, *self._read_fresh(context))
        scores = self.model.scores(growth.outputs)  # [B, 1, Vd]
        vocabulary = None if len(self.model.token_map) == self.model.vocab_size else self.model.token_map
        if self.dynamic is not None:
            cut = self.dynamic.cut(context.max_depth)  # rows about to end need no deeper tree
            assert isinstance(cut, DynamicShape), "some level is left"
            return grow_dynamic(context.roots, scores, growth.extend, cut, vocabulary)
        shape = self.shape.cut(context.max_depth)
        chance = context.generator if self.sampled else None
        return grow_static(context.roots, scores, growth.extend, shape, vocabulary, context.temperature, chance)

    def _read_fresh(self, context: DraftContext) -> tuple[Tensor, Tensor, KeyBlock]:
        """Add the pairs committed since the last draft.

        Returns what the layer gives at each row's last pair [B, 1, H], the position of that pair int64 [B, 1], and the
        committed pairs as a block whose `seen` is [B, 1, S].
        """
        fresh, rows = fresh_of(context), slice(0, len(context.lengths))  # column i: state i and token i + 1
        inputs, residual = self.model.join(self.model.feature(fresh.states), fresh.tokens)
        output, block = read_newest(self.model.layer, self._caches[0], rows, fresh, inputs, residual)
        return output, fresh.last, block


@dataclass
class _Growth:
    """The nodes extended so far in one step, the root first.

    outputs: [B, E, H], what left the layer at each; positions: int64 [B, 1], the root pair's; committed: what all of
    them see.
    """

    model: PairModel
    outputs: Tensor
    positions: Tensor
    committed: KeyBlock

    def __post_init__(self) -> None:
        batch, device = len(self.outputs), self.outputs.device
        self._features = self.model.recycled(self.outputs)
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._lineage = torch.zeros(batch, 1, 0, dtype=torch.bool, device=device)  # [B, E, E - 1]: sees extended node
        self._level = 0

    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """See growing.Extend. Nodes of one call have one depth, one more than those of the last call."""
        batch, count = tokens.shape
        self._level += 1
        above = parents.expand(batch, -1)
        feature = self._features.gather(1, above[..., None].expand(-1, -1, self._features.shape[-1]))
        inputs, residual = self.model.join(feature, tokens)
        positions = self.positions + self._level
        keys, values = self.model.layer.key_value(inputs, positions)
        self._keys.append(keys)
        self._values.append(values)
        before = self._lineage.shape[-1]
        own = torch.eye(count, dtype=torch.bool, device=tokens.device).expand(batch, -1, -1)
        inherited = self._lineage.gather(1, above[..., None].expand(-1, -1, before))
        seen = torch.cat([inherited, own], dim=-1)  # [B, n, E - 1 + n]
        self._lineage = torch.cat([torch.nn.functional.pad(self._lineage, (0, count)), seen], dim=1)
        drafted = KeyBlock(torch.cat(self._keys, dim=2), torch.cat(self._values, dim=2), seen)
        query = self.model.layer.query(inputs, positions)
        output = self.model.layer.finish(residual, attend(query, [self.committed, drafted]))
        self.outputs = torch.cat([self.outputs, output], dim=1)
        self._features = torch.cat([self._features, self.model.recycled(output)], dim=1)
        return self.model.scores(output)
