"""The grouped attention against transformers' own eager functions: plain, capped (Gemma 2), with sinks (gpt-oss)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama import modeling_llama

from backend.targets.attention import NAME, grouped_attention, install
from backend.targets.tiny import tiny_model

B, ROWS, KEYS, D = 2, 5, 9, 8


class Layer(nn.Module):
    """What the eager functions read of an attention module, in evaluation mode."""

    def __init__(self, groups: int, sinks: Tensor | None = None) -> None:
        super().__init__()
        self.num_key_value_groups, self.sinks = groups, sinks
        self.eval()


def random_case(heads: int, kv_heads: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """query, key, value and an additive mask in which every row sees something, different for every sequence."""
    g = torch.Generator().manual_seed(seed)
    query = torch.randn(B, heads, ROWS, D, generator=g)
    key, value = torch.randn(2, B, kv_heads, KEYS, D, generator=g)
    seen = torch.rand(B, 1, ROWS, KEYS, generator=g) < 0.5
    seen[..., 0] = True
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    return query, key, value, mask


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("scaling", [0.3, None])
def test_grouped_equals_llamas_eager(heads: int, kv_heads: int, scaling: float | None) -> None:
    query, key, value, mask = random_case(heads, kv_heads)
    layer = Layer(heads // kv_heads)
    expected, _ = modeling_llama.eager_attention_forward(layer, query, key, value, mask, scaling=scaling or D**-0.5)
    got, weights = grouped_attention(layer, query, key, value, mask, scaling=scaling)
    assert weights is None and got.shape == (B, ROWS, heads, D)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("softcap", [1.5, 50.0, None])
def test_soft_cap_equals_gemmas_eager(softcap: float | None) -> None:
    query, key, value, mask = random_case(4, 2, seed=1)
    args = (Layer(2), 3 * query, key, value, mask)
    expected, _ = modeling_gemma2.eager_attention_forward(*args, scaling=0.5, softcap=softcap)
    got, _ = grouped_attention(*args, scaling=0.5, softcap=softcap)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2)])
def test_sinks_equal_gpt_oss_eager(heads: int, kv_heads: int) -> None:
    query, key, value, mask = random_case(heads, kv_heads, seed=2)
    sinks = torch.tensor([0.5, -1.0, 2.0, 1.0])
    layer = Layer(heads // kv_heads, sinks)
    expected, _ = modeling_gpt_oss.eager_attention_forward(layer, query, key, value, mask, scaling=0.4)
    got, _ = grouped_attention(layer, query, key, value, mask, scaling=0.4, s_aux=sinks)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    without, _ = grouped_attention(layer, query, key, value, mask, scaling=0.4)
    assert not torch.allclose(without, got, atol=1e-2)


def test_one_mask_for_all_sequences_and_no_mask_at_all() -> None:
    query, key, value, mask = random_case(4, 2, seed=3)
    shared = mask[:1]
    repeated, _ = grouped_attention(Layer(2), query, key, value, shared.expand(B, -1, -1, -1))
    torch.testing.assert_close(grouped_attention(Layer(2), query, key, value, shared)[0], repeated)
    nothing_hidden, _ = grouped_attention(Layer(2), query, key, value, torch.zeros_like(mask))
    torch.testing.assert_close(grouped_attention(Layer(2), query, key, value, None)[0], nothing_hidden)


def test_values_may_be_of_another_width() -> None:
    query, key, _, mask = random_case(4, 2, seed=4)
    value = torch.randn(B, 2, KEYS, 3, generator=torch.Generator().manual_seed(5))
    got, _ = grouped_attention(Layer(2), query, key, value, mask)
    expected, _ = modeling_llama.eager_attention_forward(Layer(2), query, key, value, mask, scaling=D**-0.5)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_installed_where_the_class_allows_it() -> None:
    assert install(tiny_model("llama")) == NAME
    old: Any = SimpleNamespace(config=SimpleNamespace(_attn_implementation="eager"))
    assert install(old) == "eager"
