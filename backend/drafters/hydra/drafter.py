"""Drafting with Hydra heads: static and EAGLE-2 trees, each inner node scored with its own path.

Without a prefix layer nothing is kept of a row. A prefix layer's cache holds committed states alone: those committed
since the last draft are added before each, so what was rejected never has to be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.base import Draft, DraftContext, tree_to_fill
from backend.drafters.growing import grow_dynamic, grow_static
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.layer.cache import LayerCache, move_all
from backend.drafters.layer.fresh import fresh_of, prompt_parts
from backend.drafters.plain.drafter import root_draft
from backend.targets.target import FINAL
from backend.trees import DynamicShape, TreeShape

PROMPT_CHUNK = 2048  #: prompt states projected at once


class HydraDrafter:
    family = "hydra"

    def __init__(
        self,
        name: str,
        heads: HydraHeads,
        shape: TreeShape,
        sampled: bool = False,
        dynamic: DynamicShape | None = None,
    ) -> None:
        """`dynamic`, where given, is what grows; `shape` then only tells its largest size, and siblings are chosen."""
        config = heads.config
        count = config.num_heads
        self.shape = tree_to_fill(name, shape, dynamic, config.output_rows, count, f"has {count} heads")
        self.name, self.heads, self.dynamic = name, heads, dynamic
        self.sampled = sampled and dynamic is None
        self.reads = () if heads.prefix is None else (FINAL,)
        self._caches: list[LayerCache] = []

    def with_shape(self, shape: TreeShape) -> HydraDrafter:
        return HydraDrafter(self.name, self.heads, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> HydraDrafter:
        """The same heads growing their tree by their own confidence. Raises HeadwayError when it is deeper than there
        are heads.
        """
        return HydraDrafter(self.name, self.heads, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> HydraDrafter:
        return HydraDrafter(self.name, self.heads, self.shape, sampled, self.dynamic)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def start(self, rows: int, capacity: int) -> None:
        prefix = self.heads.prefix
        if prefix is not None:
            room = capacity + self.shape.max_depth + 1  # columns past a row's committed ones are written too
            self._caches = [LayerCache(rows, room, prefix.layer.shape, self.heads.embedding)]

    def replace_rows(self, rows: Sequence[int]) -> None:
        return None  # how many states a row has follows from its committed length

    def move_row(self, source: int, target: int) -> None:
        move_all(self._caches, source, target)

    @torch.no_grad()
    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """All states of the prompt but the last, which comes with the first draft."""
        prefix = self.heads.prefix
        assert prefix is not None, "without one nothing is read"
        for part in prompt_parts(tokens, states, PROMPT_CHUNK):
            prefix.remember(self._caches[0], slice(row, row + 1), part)

    # -- drafting ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        hidden = self._hidden(context)  # committed states are read whatever is drafted
        shape = self.shape.cut(context.max_depth)
        if not shape.num_nodes:
            return root_draft(context)
        paths = _Paths(self.heads, hidden, context.roots)
        vocabulary = None if self.heads.config.draft_vocab_size is None else self.heads.token_map
        if self.dynamic is not None:
            cut = self.dynamic.cut(context.max_depth)
            assert isinstance(cut, DynamicShape), "some level is left"
            return grow_dynamic(context.roots, paths.scores(), paths.extend, cut, vocabulary)
        chance = context.generator if self.sampled else None
        return grow_static(context.roots, paths.scores(), paths.extend, shape, vocabulary, context.temperature, chance)

    def _hidden(self, context: DraftContext) -> Tensor:
        """What the heads read of the text: [B, H]."""
        prefix = self.heads.prefix
        if prefix is None:
            return context.hidden
        return prefix.newest(self._caches[0], slice(0, len(context.lengths)), fresh_of(context))


class _Paths:
    """The tokens from the root to every node of the last level that was extended: int64 [B, n, depth + 1].

    Static or grown, the parents of a level's nodes are nodes of the level before.
    """

    def __init__(self, heads: HydraHeads, hidden: Tensor, roots: Tensor) -> None:
        self.heads, self.hidden = heads, hidden
        self.tokens = roots[:, None, None]
        self._first = 0  # number of the level's first node among the extended ones

    def scores(self) -> Tensor:
        """After each node of the level: [B, n, Vd]."""
        head = self.tokens.shape[2] - 1
        hidden = self.hidden[:, None].expand(-1, self.tokens.shape[1], -1)
        return self.heads.scores(head, self.heads.state(head, hidden, self.tokens))

    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """See growing.Extend: the parents of a level's nodes are nodes of the level before."""
        above = (parents - self._first).expand(len(tokens), -1)[..., None].expand(-1, -1, self.tokens.shape[2])
        self._first += self.tokens.shape[1]
        self.tokens = torch.cat([self.tokens.gather(1, above), tokens[..., None]], dim=2)
        return self.scores()
