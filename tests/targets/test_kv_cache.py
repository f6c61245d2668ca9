"""The cache that is written in place: where entries land, what a commit keeps, what is forgotten."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

from backend.errors import HeadwayError
from backend.targets.kv_cache import KVCache

HEADS, D = 2, 3
CPU = torch.device("cpu")


def write(cache: KVCache, rows: slice, labels: list[list[float]], layer: int = 0) -> Tensor:
    """One pass: keys hold the labels [rows, width], values their negatives; returns the keys' labels [rows, filled]."""
    cache.open_window(rows, len(labels[0]))
    return store(cache, labels, layer)


def store(cache: KVCache, labels: list[list[float]], layer: int = 0) -> Tensor:
    keys = torch.tensor(labels, dtype=torch.float32)[:, None, :, None].expand(-1, HEADS, -1, D)
    got_keys, got_values = cache.layers[layer].update(keys, -keys)
    assert torch.equal(got_keys, -got_values) and torch.equal(got_keys, got_keys[:, :1, :, :1].expand_as(got_keys))
    return got_keys[:, 0, :, 0]


def test_a_pass_is_written_behind_each_rows_committed_part() -> None:
    cache = KVCache(1, 2, 10, CPU)
    assert write(cache, slice(0, 1), [[1, 2, 3]]).tolist() == [[1, 2, 3]]
    cache.advance(slice(0, 1), [3])
    write(cache, slice(1, 2), [[5]])
    cache.advance(slice(1, 2), [1])
    assert cache.lengths == [3, 1]
    seen = write(cache, slice(0, 2), [[10, 11], [20, 21]])
    assert seen.shape == (2, 5)  # up to the longest row's end
    assert seen[0].tolist() == [1, 2, 3, 10, 11]
    assert seen[1, :3].tolist() == [5, 20, 21]
    assert cache.lengths == [3, 1]  # not counted until advance


def test_what_is_not_counted_is_overwritten() -> None:
    cache = KVCache(1, 1, 10, CPU)
    write(cache, slice(0, 1), [[1, 2, 3]])
    cache.advance(slice(0, 1), [1])
    assert write(cache, slice(0, 1), [[7, 8]]).tolist() == [[1, 7, 8]]


def test_move_brings_the_kept_columns_together() -> None:
    cache = KVCache(2, 3, 12, CPU)
    for layer in range(2):
        for row, length in enumerate((2, 0, 4)):
            cache.lengths[row] = length
        rows = [[100.0 * row + 10 * layer + column for column in range(6)] for row in range(3)]
        write(cache, slice(0, 3), rows, layer)
    cache.move(slice(0, 3), torch.tensor([[2, 5, -1], [1, 2, 3], [-1, -1, -1]]))
    cache.advance(slice(0, 3), [3, 4, 1])
    assert cache.lengths == [5, 4, 5]
    cache.open_window(slice(0, 3), 1)
    for layer in range(2):
        seen = store(cache, [[9], [9], [9]], layer)
        base = [100.0 * row + 10 * layer for row in range(3)]
        assert seen[0, 2:5].tolist() == [base[0], base[0] + 2, base[0] + 5]
        assert seen[1, :4].tolist() == [base[1] + column for column in range(4)]
        assert seen[2, 4].item() == base[2]


def test_moving_nothing_at_the_very_end_of_the_cache_changes_nothing() -> None:
    cache = KVCache(1, 1, 4, CPU)
    cache.lengths[0] = 2
    write(cache, slice(0, 1), [[1, 2]])
    before = cache.layers[0].keys.clone()
    cache.move(slice(0, 1), torch.tensor([[-1, -1, -1]]))  # columns 3 to 5 do not exist
    assert torch.equal(cache.layers[0].keys, before)
    cache.move(slice(0, 1), torch.tensor([[1, -1, -1]]))  # stays where it is
    assert torch.equal(cache.layers[0].keys, before)
    cache.move(slice(0, 1), torch.empty(1, 0, dtype=torch.int64))


def test_a_full_cache_says_so_in_one_sentence() -> None:
    cache = KVCache(1, 2, 6, CPU)
    cache.lengths[:] = [5, 1]
    cache.open_window(slice(1, 2), 5)
    with pytest.raises(
        HeadwayError, match=r"^The text no longer fits: it needs 7 tokens, and room was made for 6;.*\.$"
    ):
        cache.open_window(slice(0, 2), 2)
    assert cache.lengths == [5, 1]


def test_rows_can_be_copied_and_forgotten() -> None:
    cache = KVCache(1, 3, 8, CPU)
    write(cache, slice(0, 3), [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    cache.advance(slice(0, 3), [3, 1, 2])
    cache.copy_row(0, 2)
    cache.clear(1)
    assert cache.lengths == [3, 0, 3]
    seen = write(cache, slice(0, 3), [[10], [20], [30]])
    assert seen[0].tolist() == [1, 2, 3, 10] and seen[2].tolist() == [1, 2, 3, 30] and seen[1, 0] == 20


def test_lengths_on_the_device_follow_every_change() -> None:
    cache = KVCache(1, 3, 8, CPU)
    first = cache.lengths_on_device(slice(0, 3))
    assert first.tolist() == [0, 0, 0] and cache.lengths_on_device(slice(0, 3)).data_ptr() == first.data_ptr()
    cache.advance(slice(1, 3), [2, 1])
    assert cache.lengths_on_device(slice(0, 3)).tolist() == [0, 2, 1]
    assert cache.lengths_on_device(slice(1, 2)).tolist() == [2]
    cache.clear(1)
    assert cache.lengths_on_device(slice(0, 2)).tolist() == [0, 0]
    assert first.tolist() == [0, 0, 0]  # what was handed out does not change under its owner


def test_layers_of_equal_shape_share_a_stack_and_others_do_not() -> None:
    cache = KVCache(2, 1, 4, CPU)
    cache.open_window(slice(0, 1), 1)
    for layer, width in enumerate((D, D + 1)):
        keys = torch.full((1, HEADS, 1, width), float(layer + 1))
        cache.layers[layer].update(keys, torch.full((1, HEADS, 1, D), -1.0))
    assert cache.layers[0].keys.shape[-1] == D and cache.layers[1].keys.shape[-1] == D + 1
    assert cache.layers[0].keys[0, 0, 0, 0] == 1 and cache.layers[1].keys[0, 0, 0, 0] == 2
    cache.move(slice(0, 1), torch.tensor([[-1]]))
    pointers = [tensor.data_ptr() for layer in cache.layers for tensor in (layer.keys, layer.values)]
    assert len(set(pointers)) == 4


def test_what_transformers_asks_of_a_layer() -> None:
    cache = KVCache(1, 2, 9, CPU)
    cache.lengths[:] = [4, 2]
    cache.open_window(slice(0, 2), 3)
    layer = cache.layers[0]
    assert layer.get_mask_sizes(3) == (7, 0) and layer.get_seq_length() == 4
    assert layer.get_max_length() == layer.get_max_cache_shape() == 9


def test_a_cache_that_nobody_has_any_more_is_gone_at_once() -> None:
    gc.disable()
    try:
        cache = KVCache(2, 1, 10, CPU)
        write(cache, slice(0, 1), [[1, 2, 3]])
        seen = weakref.ref(cache)
        del cache
        assert seen() is None
    finally:
        gc.enable()
