"""Packed linear layers against nn.Linear."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from backend.targets.packed_linear import NEVER, RowLinear, can_pack, pack_linear, pack_model
from backend.targets.tiny import tiny_model


@pytest.mark.parametrize("shape", [(1, 16), (3, 5, 16), (2, 1, 16), (70, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_equals_plain(shape: tuple[int, ...], bias: bool) -> None:
    g = torch.Generator().manual_seed(0)
    linear = nn.Linear(16, 24, bias=bias)
    for parameter in linear.parameters():
        nn.init.normal_(parameter, generator=g)
    packed = pack_linear(linear.weight, linear.bias)
    assert isinstance(packed, RowLinear)
    assert (packed.packed_from == 1) == torch.backends.mkldnn.is_available()
    x = torch.randn(shape, generator=g)
    with torch.inference_mode():
        torch.testing.assert_close(packed(x), linear(x), atol=1e-5, rtol=1e-5)
        strided = torch.randn(16, 4, generator=g).T  # a view that is not contiguous
        torch.testing.assert_close(packed(strided), linear(strided), atol=1e-5, rtol=1e-5)


def test_what_cannot_be_packed_stays_plain() -> None:
    assert not can_pack(torch.zeros(2, 2, dtype=torch.bfloat16))
    assert not can_pack(torch.zeros(0, 2))
    assert not can_pack(torch.zeros(2, 2, device="meta"))
    weight, bias = torch.randn(3, 4).bfloat16(), torch.randn(3).bfloat16()
    plain = pack_linear(weight, bias)
    assert isinstance(plain, RowLinear) and plain.packed_from == NEVER
    x = torch.randn(2, 4).bfloat16()
    assert torch.equal(plain(x), nn.functional.linear(x, weight, bias))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN")
def test_a_packed_model_answers_the_same_and_keeps_tied_embeddings() -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    for kind in ("llama", "gemma2"):  # an own head and a tied one
        model, packed = tiny_model(kind), tiny_model(kind)
        linears = sum(type(module) is nn.Linear for module in packed.modules())
        assert pack_model(packed) == linears > 0
        assert not any(type(module) is nn.Linear for module in packed.modules())
        embedding = packed.get_input_embeddings().weight
        assert torch.equal(embedding, model.get_input_embeddings().weight)
        with torch.inference_mode():
            torch.testing.assert_close(packed(input_ids=ids).logits, model(input_ids=ids).logits, atol=1e-4, rtol=1e-4)
