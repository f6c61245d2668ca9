"""Keys and values of the committed columns of several rows, for one decoder layer. Knows no model and no tree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.layer.attention import KeyBlock
from backend.drafters.layer.config import LayerShape


class LayerCache:
    """Room for `capacity` columns a row. Column numbers may begin below 0, at `first`: what stands there is written
    and never looked at.
    """

    def __init__(self, rows: int, capacity: int, shape: LayerShape, like: Tensor, first: int = 0) -> None:
        room = (rows, shape.num_kv_heads, capacity - first, shape.head_dim)
        self.keys, self.values, self.first = like.new_zeros(room), like.new_zeros(room), first

    def write(self, rows: slice, columns: Tensor, keys: Tensor, values: Tensor) -> None:
        """keys and values [B, nkv, S, hd] of `columns` int64 [B, S] of these rows."""
        batch = torch.arange(len(columns), device=columns.device)[:, None]
        self.keys[rows].transpose(1, 2)[batch, columns - self.first] = keys.transpose(1, 2)
        self.values[rows].transpose(1, 2)[batch, columns - self.first] = values.transpose(1, 2)

    def block(self, rows: slice, filled: int, seen: Tensor) -> KeyBlock:
        """The columns `first` to `filled` - 1; `seen` as columns_of numbers them."""
        end = filled - self.first
        return KeyBlock(self.keys[rows, :, :end], self.values[rows, :, :end], seen)

    def columns_of(self, filled: int) -> Tensor:
        """int64 [S]: the numbers of the columns in a block."""
        return torch.arange(self.first, filled, device=self.keys.device)

    def move(self, source: int, target: int) -> None:
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]


def move_all(caches: Sequence[LayerCache], source: int, target: int) -> None:
    """Row `target` now holds what row `source` held."""
    for cache in caches:
        cache.move(source, target)
