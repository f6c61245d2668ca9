"""One decoder layer in Llama's layout, with attention over several blocks of keys at once.

The blocks are what a drafter has at hand: committed pairs in its cache, drafted ones of this step, in training the keys
of earlier test-time steps. Joining them in one softmax spares copying a cache to append to it. Knows no family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from backend.drafters.layer.config import LayerShape


@dataclass(frozen=True)
class KeyBlock:
    """Keys and values [B, nkv, S, hd], and who may look at them: bool, broadcastable to [B, T, S]."""

    keys: Tensor
    values: Tensor
    seen: Tensor


class DraftLayer(nn.Module):
    """Attention and feed-forward without the norm in front, which families place differently."""

    def __init__(self, shape: LayerShape, input_width: int) -> None:
        super().__init__()
        self.shape = shape
        wide, narrow = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        self.q_proj = nn.Linear(input_width, wide, bias=False)
        self.k_proj = nn.Linear(input_width, narrow, bias=False)
        self.v_proj = nn.Linear(input_width, narrow, bias=False)
        self.o_proj = nn.Linear(wide, shape.hidden_size, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def query(self, inputs: Tensor, positions: Tensor) -> Tensor:
        """inputs [B, T, W], positions int64 [B or 1, T] -> [B, nq, T, hd], rotated."""
        return rotated(self._heads(self.q_proj(inputs)), positions, self.shape.rope_theta)

    def key_value(self, inputs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(keys rotated, values), each [B, nkv, T, hd]."""
        keys = rotated(self._heads(self.k_proj(inputs)), positions, self.shape.rope_theta)
        return keys, self._heads(self.v_proj(inputs))

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """residual [B, T, H], attended [B, nq, T, hd] -> what leaves the layer, [B, T, H]."""
        state = residual + self.o_proj(attended.transpose(1, 2).flatten(2))
        inner = self.post_attention_layernorm(state)
        out: Tensor = state + self.down_proj(functional.silu(self.gate_proj(inner)) * self.up_proj(inner))
        return out

    def _heads(self, projected: Tensor) -> Tensor:
        heads: Tensor = projected.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)
        return heads


class OrdinaryLayer(nn.Module):
    """A decoder layer that reads one state, with the norm in front: one more norm than a DraftLayer."""

    def __init__(self, shape: LayerShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.layer = DraftLayer(shape, shape.hidden_size)


def attend(query: Tensor, blocks: Sequence[KeyBlock]) -> Tensor:
    """query [B, nq, T, hd] over all keys of all blocks in one softmax -> [B, nq, T, hd].

    A query that may look at nothing gets a meaningless, finite value.
    """
    batch, num_queries, length, width = query.shape
    grouped = query.view(batch, blocks[0].keys.shape[1], -1, length, width) * width**-0.5  # [B, nkv, g, T, hd]
    lowest = torch.finfo(query.dtype).min
    scores = [
        (grouped @ block.keys[:, :, None].transpose(-1, -2)).masked_fill(~block.seen[:, None, None], lowest)
        for block in blocks
    ]
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    parts = weights.split([block.keys.shape[2] for block in blocks], dim=-1)
    mixed: Tensor = parts[0] @ blocks[0].values[:, :, None]
    for part, block in zip(parts[1:], blocks[1:], strict=True):
        mixed = mixed + part @ block.values[:, :, None]
    return mixed.reshape(batch, num_queries, length, width)


def rotated(heads: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary positions, halves rotated as in Llama: heads [B, n, T, hd], positions int64 [B or 1, T]."""
    half = heads.shape[-1] // 2
    rates = theta ** -(torch.arange(half, device=heads.device, dtype=torch.float32) / half)
    angles = (positions[:, None, :, None].float() * rates).to(torch.float32)  # [B or 1, 1, T, hd/2]
    cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
