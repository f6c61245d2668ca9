"""Committed columns that a drafter's caches do not hold yet, and what leaves a layer at the newest of them.

Column i of a row holds the target's state at position i, for families that read pairs beside the token at i + 1. Only
committed columns ever come here, so nothing has to be taken back when drafts are rejected. Knows no family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.drafters.base import DraftContext
from backend.drafters.layer.attention import DraftLayer, KeyBlock, attend
from backend.drafters.layer.cache import LayerCache


@dataclass(frozen=True)
class Fresh:
    """Columns to add.

    columns: int64 [B, S], of which counts int64 [B] are real; tokens: int64 [B, S], those after the columns; states:
    float [B, S, F]; filled: columns that exist afterwards, in the longest row.
    """

    columns: Tensor
    counts: Tensor
    tokens: Tensor
    states: Tensor
    filled: int

    @property
    def last(self) -> Tensor:
        """int64 [B, 1]: each row's last real column."""
        return self.newest(self.columns[..., None])[..., 0]

    def newest(self, values: Tensor) -> Tensor:
        """values [B, S, ..] -> those of each row's last real column, [B, 1, ..]."""
        place = (self.counts - 1)[:, None, None].expand(-1, 1, values.shape[-1])
        return values.gather(1, place)


def fresh_of(context: DraftContext) -> Fresh:
    """What was committed since the last draft."""
    states, counts = context.states, context.num_states
    assert states is not None and counts is not None, "the loop hands over what `reads` names"
    last = context.lengths - 2  # the column before the root
    ahead = torch.arange(states.shape[1], device=states.device)
    columns = last[:, None] - counts[:, None] + 1 + ahead
    tokens = context.tokens.gather(1, (columns + 1).clamp(max=context.tokens.shape[1] - 1))
    lengths = context.host_lengths or context.lengths.tolist()
    return Fresh(columns, counts, tokens, states, max(lengths) - 1)


def prompt_parts(tokens: Tensor, states: Tensor, at_once: int) -> Iterator[Fresh]:
    """All columns of a row's prompt but the last, which comes with the first draft, `at_once` at a time.

    tokens: int64 [P + 1], states: [P, F], see Drafter.read_prompt.
    """
    columns = len(states) - 1
    for start in range(0, columns, at_once):
        end = min(start + at_once, columns)
        here = torch.arange(start, end, device=tokens.device)[None]
        count = torch.full((1,), end - start, device=tokens.device)
        yield Fresh(here, count, tokens[None, start + 1 : end + 1], states[None, start:end], end)


def read_newest(
    layer: DraftLayer, cache: LayerCache, rows: slice, fresh: Fresh, inputs: Tensor, residual: Tensor
) -> tuple[Tensor, KeyBlock]:
    """Add columns to the cache and run the layer at each row's last one.

    inputs [B, S, W]: what is projected; residual [B, S, H]. Returns what leaves the layer [B, 1, H], and the committed
    columns as a block whose `seen` is [B, 1, K]: those up to the last.
    """
    cache.write(rows, fresh.columns, *layer.key_value(inputs, fresh.columns))
    last, columns = fresh.last, cache.columns_of(fresh.filled)
    block = cache.block(rows, fresh.filled, (columns >= 0) & (columns <= last[..., None]))
    query = layer.query(fresh.newest(inputs), last)
    return layer.finish(fresh.newest(residual), attend(query, [block])), block
