"""The mask and the positions of a tree against a slow twin: who sees whom, one pair of columns at a time."""

from __future__ import annotations

import pytest
import torch

from backend.targets.tree_pass import additive, chunk_inputs, mask_inputs, positions, visible
from backend.trees import DraftTree

PARENTS = [[-1, 0, 0, 1, 3], [-1, 0, 1, -1, -1], [-1, -1, -1, -1, -1]]
LENGTHS = [3, 9, 0]


def path(parents: list[int], node: int) -> list[int]:
    return [0] if node == 0 else [*path(parents, parents[node]), node]


def case() -> DraftTree:
    nodes = torch.tensor([4, 2, 0])
    return DraftTree(torch.zeros(3, 5, dtype=torch.int64), torch.tensor(PARENTS), nodes, 3)


@pytest.mark.parametrize("window", [None, 1, 2, 4, 100])
def test_masks_equal_the_slow_twin(window: int | None) -> None:
    tree, filled = case(), max(LENGTHS) + 5
    inputs = mask_inputs(tree, torch.tensor(LENGTHS), filled)
    seen = visible(inputs, window)
    assert seen.shape == (3, 5, filled)
    for row, length in enumerate(LENGTHS):
        for node in range(1 + int(tree.num_nodes[row])):
            own = path(PARENTS[row], node)
            here = length + len(own) - 1
            assert positions(inputs)[row, node] == here
            where = {column: column for column in range(length)}  # column -> position, of what may be seen at all
            where |= {length + ancestor: length + depth for depth, ancestor in enumerate(own)}
            expected = {column for column, at in where.items() if window is None or here - at < window}
            assert set(seen[row, node].nonzero()[:, 0].tolist()) == expected, (row, node)


def test_padding_sees_no_drafted_column_but_itself() -> None:
    tree = case()
    seen = visible(mask_inputs(tree, torch.tensor(LENGTHS), 14), None)
    for row, length in enumerate(LENGTHS):
        for node in range(1 + int(tree.num_nodes[row]), 5):
            assert seen[row, node, length:].nonzero()[:, 0].tolist() == [node]
            assert not seen[row, : 1 + int(tree.num_nodes[row]), length + node].any()


def test_a_chunk_of_plain_text_is_causal() -> None:
    seen = visible(chunk_inputs(2, 3, torch.device("cpu")), None)[0]
    assert seen.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    windowed = visible(chunk_inputs(2, 3, torch.device("cpu")), 2)[0]
    assert windowed.int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def test_the_additive_mask_is_zero_or_the_minimum() -> None:
    mask = additive(torch.tensor([[[True, False]]]), torch.bfloat16)
    assert mask.shape == (1, 1, 1, 2) and mask.dtype == torch.bfloat16
    assert mask.flatten().tolist() == [0.0, torch.finfo(torch.bfloat16).min]
