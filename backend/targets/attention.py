"""The attention function that target models run with: grouped heads without copying keys, caps and sinks included.

transformers' own `sdpa` repeats every key and value head for its query group as soon as a mask is given, which copies
the whole cache at every layer of every step, and it ignores soft-capping. Here the query heads of a group are folded
into the row dimension instead: [B, kv_heads, group * rows, head_dim] against the cache as it lies. It does not know
trees: the mask says it all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "headway"


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of `query` [B, heads, rows, d] over `key`, `value` [B, kv_heads, keys, d].

    Args:
        attention_mask: additive float [B, 1, rows, keys] or None (every key is seen).
        softcap: Gemma 2's cap on the scores, softcap * tanh(score / softcap), applied before the mask.
        s_aux: gpt-oss's attention sinks, one extra score a head that takes probability and gives nothing.

    Returns:
        ([B, rows, heads, d_v], None), the layout that transformers' attention modules expect.
    """
    batch, heads, rows, _d = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    folded = query.reshape(batch, kv_heads, group * rows, query.shape[-1])
    mask = attention_mask if attention_mask is None or group == 1 else _for_group(attention_mask, query, key, group)
    if softcap is None and s_aux is None:
        out = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    else:
        out = _explicit(folded, key, value, mask, scaling, softcap, s_aux, group)
    return out.reshape(batch, heads, rows, -1).transpose(1, 2), None


def _for_group(mask: Tensor, query: Tensor, key: Tensor, group: int) -> Tensor:
    """`mask` for the folded rows [B, 1, group * rows, keys]; a single row is broadcast and needs no copy.

    Kept on the mask itself, so that the layers of a pass, which all see the same one, fold it once and not each.
    """
    batch, _heads, rows, _d = query.shape
    if rows == 1:
        return mask
    kept: dict[int, Tensor] = mask.__dict__.setdefault("headway_folded", {})
    if group not in kept:
        kept[group] = mask.expand(batch, 1, rows, key.shape[2]).repeat(1, 1, group, 1)
    return kept[group]


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: Tensor | None,
    group: int,
) -> Tensor:
    """The textbook form, for what the fused kernel can't do."""
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    scores = query @ key.transpose(-1, -2) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores + mask
    if sinks is None:
        return scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value
    batch, kv_heads, folded, _ = scores.shape
    column = sinks.to(scores.dtype).reshape(1, kv_heads, group, 1).repeat_interleave(folded // group, dim=2)
    joined = torch.cat([scores, column.expand(batch, -1, -1, 1)], dim=-1)
    return joined.softmax(-1, dtype=torch.float32)[..., :-1].to(value.dtype) @ value


def install(model: Any) -> str:
    """Make `model` use the grouped attention where its class allows it; returns the name of what it now uses.

    Older model classes bring their own attention code, which takes an additive mask as it is; they keep it, and the
    self-test decides whether it is good enough.
    """
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, eager_mask)  # for plain passes without a mask of ours
    if getattr(model, "_supports_attention_backend", False):
        model.set_attn_implementation(NAME)
    return str(model.config._attn_implementation)
