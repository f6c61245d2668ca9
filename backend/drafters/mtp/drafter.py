"""Drafting with several MTP modules: one a depth that reads the one before it, or parallel heads.

Each module has its own cache of the columns it has read of committed text. Column i of module m (from 0) holds the
state that module m - 1 has there and the token i + m + 1; before a draft, the columns whose tokens were committed since
the last one are added to all modules. What is drafted is thrown away after every step. The shared form, a single
module, is drafted with by layer/drafting.py. Knows no loss and no acceptance rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from backend.drafters.base import Draft, DraftContext, tree_to_fill
from backend.drafters.best_first import grow_best_first
from backend.drafters.growing import DynamicShape, grow_dynamic, grow_static
from backend.drafters.independent import fill_static
from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.cache import LayerCache, move_all
from backend.drafters.layer.drafting import PairDrafter
from backend.drafters.layer.fresh import Fresh, fresh_of, prompt_parts, read_newest
from backend.drafters.mtp.model import MtpModel, seen_by
from backend.drafters.plain.drafter import root_draft
from backend.trees import TreeShape

PROMPT_CHUNK = 512  #: prompt columns read at once


class MtpDrafter:
    """Drafts with an `MtpModel` whose form is modules or parallel; rows are those given to `start`, in that order."""

    family = "mtp"

    def __init__(
        self,
        name: str,
        model: MtpModel,
        shape: TreeShape,
        sampled: bool = False,
        dynamic: DynamicShape | None = None,
    ) -> None:
        """`dynamic`, where given, is what grows; `shape` is then only its largest size, and siblings are chosen."""
        count = model.config.num_modules
        self.shape = tree_to_fill(name, shape, dynamic, len(model.token_map), count, f"has {count} modules")
        self.name, self.model, self.dynamic = name, model, dynamic
        self.sampled = sampled and dynamic is None
        self.reads = model.reads
        self.parallel = model.config.form == "parallel"
        self._caches: list[LayerCache] = []
        self._left = torch.empty(0)  # [modules, rows, H]: each module's state at its last committed column

    def with_shape(self, shape: TreeShape) -> MtpDrafter:
        return MtpDrafter(self.name, self.model, shape, self.sampled)

    def with_dynamic(self, dynamic: DynamicShape) -> MtpDrafter:
        """The same modules filling the likeliest tree of each step: EAGLE-2's, or for parallel heads best_first.py's.

        Raises HeadwayError when it is deeper than there are modules.
        """
        return MtpDrafter(self.name, self.model, self.shape, dynamic=dynamic)

    def with_sampled(self, sampled: bool) -> MtpDrafter:
        return MtpDrafter(self.name, self.model, self.shape, sampled, self.dynamic)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def start(self, rows: int, capacity: int) -> None:
        like, modules = self.model.embedding, self.model.parts
        room = capacity + self.shape.max_depth + 1  # columns past a row's committed ones are written too
        self._caches = [LayerCache(rows, room, part.layer.shape, like, first=1 - len(modules)) for part in modules]
        self._left = like.new_zeros(len(modules), rows, self.model.config.layer.hidden_size)

    def replace_rows(self, rows: Sequence[int]) -> None:
        self._left[:, list(rows)] = 0

    def move_row(self, source: int, target: int) -> None:
        move_all(self._caches, source, target)
        self._left[:, target] = self._left[:, source]

    @torch.no_grad()
    def read_prompt(self, row: int, tokens: Tensor, states: Tensor) -> None:
        """All columns of the prompt but the last, which comes with the first draft."""
        for fresh in prompt_parts(tokens, states, PROMPT_CHUNK):
            self._read(slice(row, row + 1), fresh)

    # -- drafting ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def draft(self, context: DraftContext) -> Draft:
        fresh = fresh_of(context)
        outputs = self._read(slice(0, len(context.lengths)), fresh)
        depth = min(self.shape.max_depth, context.max_depth)
        if depth < 1:
            return root_draft(context)
        all_of_them = len(self.model.token_map) == self.model.vocab_size
        vocabulary = None if all_of_them else self.model.token_map
        chance = context.generator if self.sampled else None
        if self.parallel:
            scores = self.model.scores(torch.stack(outputs[:depth]))[:, :, 0]  # [D, B, Vd]
            if self.dynamic is not None:
                return grow_best_first(context.roots, scores, self.dynamic, vocabulary)
            return fill_static(context.roots, scores, self.shape.cut(depth), vocabulary, context.temperature, chance)
        growth = _Growth(self.model, self._caches, fresh, outputs[0])
        scores = self.model.scores(self.model.parts[0].norm(outputs[0]))
        if self.dynamic is None:
            shape = self.shape.cut(depth)
            return grow_static(context.roots, scores, growth.extend, shape, vocabulary, context.temperature, chance)
        return grow_dynamic(context.roots, scores, growth.extend, _cut(self.dynamic, depth), vocabulary)

    def _read(self, rows: slice, fresh: Fresh) -> list[Tensor]:
        """Add columns to all modules. Returns what leaves each module at the row's last column: of the modules form
        that of the first module alone, as the others' last columns are drafted; of parallel heads each one's, normed.
        """
        if self.parallel:
            return [self._read_parallel(rows, fresh, number) for number in range(len(self._caches))]
        found: list[Tensor] = []
        feature = self.model.feature(fresh.states)
        words = self.model.embed(fresh.tokens)
        for number, (part, cache) in enumerate(zip(self.model.parts, self._caches, strict=True)):
            columns = fresh.columns - number
            inputs, residual = part.join(feature, words)
            cache.write(rows, columns, *part.layer.key_value(inputs, columns))
            if number + 1 == len(self._caches):
                break  # nobody reads what it makes of committed text
            seen = seen_by(columns, cache.columns_of(fresh.filled), number)
            block = cache.block(rows, fresh.filled, seen)
            output = part.layer.finish(residual, attend(part.layer.query(inputs, columns), [block]))
            state = part.recycled(output)
            if number == 0:
                found = [fresh.newest(output)]
            feature = torch.cat([self._left[number, rows][:, None], state[:, :-1]], dim=1)
            self._left[number, rows] = fresh.newest(state)[:, 0]
        return found or [self._only(rows, fresh, inputs, residual)]

    def _only(self, rows: slice, fresh: Fresh, inputs: Tensor, residual: Tensor) -> Tensor:
        """What leaves a single module at the last column."""
        return read_newest(self.model.parts[0].layer, self._caches[0], rows, fresh, inputs, residual)[0]

    def _read_parallel(self, rows: slice, fresh: Fresh, number: int) -> Tensor:
        part = self.model.parts[number]
        inputs, residual = part.join(self.model.feature(fresh.states), None)
        output, _ = read_newest(part.layer, self._caches[number], rows, fresh, inputs, residual)
        normed: Tensor = part.norm(output)
        return normed


def _cut(dynamic: DynamicShape, depth: int) -> DynamicShape:
    """Rows about to end need no deeper tree."""
    if depth >= dynamic.depth:
        return dynamic
    most = dynamic.top_k + (depth - 1) * dynamic.top_k**2
    return DynamicShape(depth, dynamic.top_k, min(dynamic.num_nodes, most))


@dataclass
class _Growth:
    """The nodes extended so far in one step, the root first; a node of depth d is module d's business.

    outputs: [B, 1, H], what left the first module at the column before the root.
    """

    model: MtpModel
    caches: Sequence[LayerCache]
    fresh: Fresh
    outputs: Tensor
    _features: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._features = self.model.parts[0].recycled(self.outputs)  # [B, E, H]
        self._column = self.fresh.last  # [B, 1]
        self._level = 0

    def extend(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """See growing.Extend. Every node stands at the column before the root, sees what its module has read of
        committed text there, and itself; its path is in the state it reads.
        """
        self._level += 1
        batch, count = tokens.shape
        part, cache = self.model.parts[self._level], self.caches[self._level]
        above = parents.expand(batch, -1)[..., None].expand(-1, -1, self._features.shape[-1])
        inputs, residual = part.join(self._features.gather(1, above), self.model.embed(tokens))
        keys, values = part.layer.key_value(inputs, self._column)
        own = torch.eye(count, dtype=torch.bool, device=tokens.device)[None]
        filled = cache.columns_of(self.fresh.filled)
        committed = seen_by(self._column, filled, self._level) & (filled != self._column[..., None])
        blocks = [cache.block(slice(0, batch), self.fresh.filled, committed), KeyBlock(keys, values, own)]
        output = part.layer.finish(residual, attend(part.layer.query(inputs, self._column), blocks))
        self._features = torch.cat([self._features, part.recycled(output)], dim=1)
        return self.model.scores(part.norm(output))


def drafter_of(name: str, model: MtpModel, shape: TreeShape) -> PairDrafter | MtpDrafter:
    """A drafter of modules that are laid out for drafting."""
    if model.config.form == "shared":
        return PairDrafter("mtp", name, model, shape)
    return MtpDrafter(name, model, shape)
