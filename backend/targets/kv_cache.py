"""A preallocated key/value cache that is written in place and can forget.

Rows (sequences) have their own committed lengths. A verification pass writes its M = N + 1 columns behind the committed
part; `commit` moves the kept nodes' entries to the front of that part and forgets the rest by not counting it. Nothing
is ever copied to grow, nothing is dropped for sliding windows: windows live in the mask (see tree_pass.py). All layers
of equal shape live in one tensor, so that a commit is two operations whatever the number of layers.

The cache does not know trees, tokens or models; it sees columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from backend.errors import HeadwayError


class KVCache:
    """Room for `rows` sequences of at most `capacity` entries.

    Attributes:
        lengths: committed entries of each row, on the host.
        layers: what transformers is handed, one object a decoder layer.
    """

    def __init__(self, num_layers: int, rows: int, capacity: int, device: torch.device) -> None:
        self.rows, self.capacity, self.device = rows, capacity, device
        self.lengths = [0] * rows
        self._num_layers = num_layers
        self._stacks: list[Tensor] = []  # each [layers, rows, heads, capacity, head_dim]
        self._slots_used: list[int] = []
        self._uploaded: tuple[list[int], Tensor] | None = None
        self.window = _Window(slice(0, rows), 0, None)
        self.layers = [_TreeCacheLayer(self) for _ in range(num_layers)]
        self.for_model = Cache(layers=list(self.layers))

    def lengths_on_device(self, rows: slice) -> Tensor:
        """int64 [rows]: the committed lengths as a tensor, sent over once for each change and never waited for.

        Sending ordinary memory to a GPU makes the host wait until all queued work is done, which in the middle of a
        step would cost as much as reading a result back; pinned memory is sent in passing.
        """
        if self._uploaded is None or self._uploaded[0] != self.lengths:
            lengths = torch.tensor(self.lengths, pin_memory=self.device.type == "cuda")
            self._uploaded = (list(self.lengths), lengths.to(self.device, non_blocking=True))
        return self._uploaded[1][rows]

    def open_window(self, rows: slice, width: int) -> None:
        """The next pass computes `width` columns for these rows, to be written right behind each row's committed part.

        Raises HeadwayError when a row has no room left.
        """
        lengths = self.lengths[rows]
        filled = max(lengths) + width
        if filled > self.capacity:
            raise HeadwayError(
                f"The text no longer fits: it needs {filled} tokens, and room was made for {self.capacity}; shorten it."
            )
        columns = None
        if len(set(lengths)) > 1:
            columns = self.lengths_on_device(rows)[:, None] + torch.arange(width, device=self.device)  # [rows, width]
        self.window = _Window(rows, filled, columns, start=lengths[0], width=width)

    def advance(self, rows: slice, counts: Sequence[int]) -> None:
        """Count the first counts[i] columns of the last pass as committed, for the rows of the slice in order."""
        for row, count in zip(range(*rows.indices(self.rows)), counts, strict=True):
            self.lengths[row] += int(count)

    @torch.inference_mode()
    def move(self, rows: slice, path: Tensor) -> None:
        """Bring the kept columns of the last pass together: column path[b, d - 1] moves to column d, for every depth d.

        `path` int64 [rows, D], padded with -1, increasing along a row: no source is overwritten before it is read,
        since all are gathered first. Does not change the lengths; follow with `advance`.
        """
        batch, depth = path.shape
        if depth == 0:
            return
        starts = self.lengths_on_device(rows)[:, None]
        target = torch.arange(1, depth + 1, device=path.device).expand(batch, depth)
        source = torch.where(path < 0, target, path) + starts  # padding moves onto itself
        target = target + starts
        # Padding may point behind a nearly full cache; the last column then moves onto itself, which changes nothing.
        source, target = source.clamp(max=self.capacity - 1), target.clamp(max=self.capacity - 1)
        index = torch.arange(batch, device=path.device)[:, None]
        for stack in self._stacks:
            view = stack[:, rows].transpose(2, 3)  # [layers, rows, capacity, heads, head_dim]
            view[:, index, target] = view[:, index, source]

    @torch.inference_mode()
    def copy_row(self, source: int, target: int) -> None:
        """Overwrite row `target` with row `source`, length included."""
        length = self.lengths[source]
        for stack in self._stacks:
            stack[:, target, :, :length] = stack[:, source, :, :length]
        self.lengths[target] = length

    def clear(self, row: int) -> None:
        """Forget a row."""
        self.lengths[row] = 0

    def _room(self, like: Tensor) -> Tensor:
        """[rows, heads, capacity, head_dim] for one layer's keys or values, cut from a stack of equal layers."""
        _, heads, _, width = like.shape
        for i, stack in enumerate(self._stacks):
            matches = stack.shape[2] == heads and stack.shape[4] == width and stack.dtype == like.dtype
            if matches and self._slots_used[i] < stack.shape[0]:
                self._slots_used[i] += 1
                return stack[self._slots_used[i] - 1]
        shape = (self._num_layers, self.rows, heads, self.capacity, width)
        self._stacks.append(torch.zeros(shape, dtype=like.dtype, device=like.device))
        self._slots_used.append(1)
        return self._stacks[-1][0]


class _Window:
    """Where the pass in progress writes: `columns` [rows, width], or None when all rows start at `start`."""

    def __init__(self, rows: slice, filled: int, columns: Tensor | None, start: int = 0, width: int = 0) -> None:
        self.rows, self.filled, self.columns, self.start, self.width = rows, filled, columns, start, width


class _TreeCacheLayer(CacheLayerMixin):
    """One decoder layer's part, as transformers' cache protocol wants it."""

    def __init__(self, owner: KVCache) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers' own is untyped
        # Weak, or the two would keep each other alive until the garbage collector comes by: hundreds of megabytes.
        self._owner: KVCache = weakref.proxy(owner)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._owner._room(key_states)
        self.values = self._owner._room(value_states)
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None, "lazy_initialization makes room"
        window = self._owner.window
        keys, values = self.keys[window.rows], self.values[window.rows]
        if window.columns is None:
            stop = window.start + window.width
            keys[:, :, window.start : stop] = key_states
            values[:, :, window.start : stop] = value_states
        else:
            index = torch.arange(keys.shape[0], device=keys.device)[:, None]
            keys.transpose(1, 2)[index, window.columns] = key_states.transpose(1, 2)
            values.transpose(1, 2)[index, window.columns] = value_states.transpose(1, 2)
        return keys[:, :, : window.filled], values[:, :, : window.filled]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._owner.window.filled, 0

    def get_seq_length(self) -> int:
        return self._owner.window.filled - self._owner.window.width

    def get_max_length(self) -> int:
        return self._owner.capacity

    def get_max_cache_shape(self) -> int:
        return self._owner.capacity
