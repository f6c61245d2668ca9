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
        self._keys = self._values = torch.empty(0)  # [rows, nkv, capacity, hd]

    def with_shape(self, shape: TreeShape) -> PairDrafter:
        return PairDrafter(self.family, self.name, self.model, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> PairDrafter:
        """The same drafter growing its tree by its own confidence."""
        return PairDrafter(self.family, self.name, self.model, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> PairDrafter:
        return PairDrafter(self.family, self.name, self.model, self.shape, sampled, self.dynamic)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def start(self, rows: int, capacity: int) -> None:
        shape, like = self.model.layer.shape, self.model.embedding
        # Pairs past a row's committed ones are written and never looked at, so the last one needs room too.
        room = (rows, shape.num_kv_heads, capacity + self.shape.max_depth + 1, shape.head_dim)
        self._keys, self._values = like.new_zeros(room), like.new_zeros(room)

    def replace_rows(self, rows: Sequence[int]) -> None:
        return None  # how many pairs a row has follows from its committed length

    def move_row(self, source: int, target: int) -> None:
        for room in (self._keys, self._values):
            room[target] = room[source]

    @torch.no_grad()
    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """Keys and values of all pairs of the prompt but the last, which comes with the first draft."""
        pairs = len(states) - 1
        for start in range(0, pairs, PROMPT_CHUNK):
            here = slice(start, min(start + PROMPT_CHUNK, pairs))
            inputs, _ = self.model.join(self.model.feature(states[None, here]), tokens[None, 1:][:, here])
            positions = torch.arange(here.start, here.stop, device=tokens.device)[None]
            keys, values = self.model.layer.key_value(inputs, positions)
            self._keys[row, :, here], self._values[row, :, here] = keys[0], values[0]

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
        states, counts = context.states, context.num_states
        assert states is not None and counts is not None, "the loop hands over what `reads` names"
        batch, width = states.shape[:2]
        last = context.lengths - 2  # number of the pair before the root; pair i holds state i and token i + 1
        ahead = torch.arange(width, device=states.device)
        pairs = last[:, None] - counts[:, None] + 1 + ahead  # [B, S], garbage past `last`
        tokens = context.tokens.gather(1, (pairs + 1).clamp(max=context.tokens.shape[1] - 1))
        inputs, residual = self.model.join(self.model.feature(states), tokens)
        keys, values = self.model.layer.key_value(inputs, pairs)
        rows = torch.arange(batch, device=states.device)[:, None]
        self._keys[:batch].transpose(1, 2)[rows, pairs] = keys.transpose(1, 2)
        self._values[:batch].transpose(1, 2)[rows, pairs] = values.transpose(1, 2)
        lengths = context.host_lengths or context.lengths.tolist()
        filled = max(lengths) - 1
        seen = torch.arange(filled, device=states.device) <= last[:, None]  # [B, S]
        block = KeyBlock(self._keys[:batch, :, :filled], self._values[:batch, :, :filled], seen[:, None])
        newest = (counts - 1)[:, None, None]
        at_last = [value.gather(1, newest.expand(-1, 1, value.shape[-1])) for value in (inputs, residual)]
        query = self.model.layer.query(at_last[0], last[:, None])
        return self.model.layer.finish(at_last[1], attend(query, [block])), last[:, None], block


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
