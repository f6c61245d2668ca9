"""How a tree goes through a model that was written for plain text: the mask, the positions, and what comes back.

The N + 1 columns of a row's tree are written behind its committed part. Column i may look at (1) everything committed
and (2) itself and its ancestors in the tree; its position is committed length + depth, wherever it stands. Sliding
windows are measured in positions, never in cache columns, so siblings of one depth see the same window. These functions
only build tensors; they do not run anything and know no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.trees import DraftTree


@dataclass(frozen=True)
class PassOutput:
    """What a verification pass gives for every column of B trees.

    Args:
        hidden: [B, M, H], last hidden state after the model's final norm.
        logits: [B, M, V], for the token after each column.
        states: [B, M, F], the states of the layers that were asked for, side by side; None when none were.
    """

    hidden: Tensor
    logits: Tensor
    states: Tensor | None = None


@dataclass(frozen=True)
class MaskInputs:
    """Who sees whom, before it is turned into numbers: all int64 or bool, on the model's device.

    Args:
        lengths: [B], committed entries in the cache (the root is not among them).
        depths: [B or 1, M]; ancestors: bool [B or 1, M, M] (a column is its own ancestor).
        filled: number of key columns, max(lengths) + M.
    """

    lengths: Tensor
    depths: Tensor
    ancestors: Tensor
    filled: int


def positions(inputs: MaskInputs) -> Tensor:
    """int64 [B, M]: committed length + depth."""
    return inputs.lengths[:, None] + inputs.depths


def visible(inputs: MaskInputs, window: int | None) -> Tensor:
    """bool [B, M, filled]: which key column each tree column may look at.

    `window` is the sliding window in positions (query position - key position < window), or None.
    """
    batch, width = inputs.lengths.shape[0], inputs.depths.shape[-1]
    columns = torch.arange(inputs.filled, device=inputs.lengths.device)
    inside = columns - inputs.lengths[:, None]  # [B, filled]: column within the tree, negative for committed ones
    slot = inside.clamp(0, width - 1)
    ancestors = inputs.ancestors.expand(batch, -1, -1).gather(2, slot[:, None].expand(-1, width, -1))
    in_tree = ((inside >= 0) & (inside < width))[:, None] & ancestors
    seen = (inside < 0)[:, None] | in_tree
    if window is None:
        return seen
    depth_of_column = inputs.depths.expand(batch, -1).gather(1, slot)
    key_position = torch.where(inside < 0, columns, inputs.lengths[:, None] + depth_of_column)
    distance = positions(inputs)[:, :, None] - key_position[:, None]
    return seen & (distance < window)


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """float [B, 1, M, filled]: 0 where seen, the dtype's minimum elsewhere, as transformers takes it."""
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]


def mask_inputs(tree: DraftTree, lengths: Tensor, filled: int) -> MaskInputs:
    return MaskInputs(lengths, tree.depths, tree.ancestors, filled)


def chunk_inputs(start: int, width: int, device: torch.device) -> MaskInputs:
    """A piece of plain text, `width` tokens behind `start` committed ones: a chain, every token sees all before it."""
    triangle = torch.ones(1, width, width, dtype=torch.bool, device=device).tril()
    depths = torch.arange(width, device=device)[None]
    return MaskInputs(torch.tensor([start], device=device), depths, triangle, start + width)
