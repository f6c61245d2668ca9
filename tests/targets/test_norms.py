"""Norms in one call: exactly what the model's own classes compute, in every family, or left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from backend.targets.norms import RowNorm, shorten_norms
from backend.targets.tiny import KINDS, tiny_model


def _norms(model: nn.Module) -> int:
    return sum(type(module).__name__.endswith("RMSNorm") for module in model.modules())


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_shorter_norms_gives_the_same_numbers(kind: str) -> None:
    model, short = tiny_model(kind), tiny_model(kind)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "norm" in name:  # weights of one would hide a wrong product
            noise = 0.3 * torch.randn(parameter.shape, generator=generator)
            parameter.data.add_(noise)
            dict(short.named_parameters())[name].data.add_(noise)
    names = list(short.state_dict())
    replaced = shorten_norms(short)
    assert replaced + _norms(short) == _norms(model)
    assert list(short.state_dict()) == names
    with torch.inference_mode():
        ids = torch.arange(1, 9)[None]
        assert torch.equal(short(input_ids=ids).logits, model(input_ids=ids).logits)
    if kind in ("llama", "qwen3", "mistral", "mixtral"):
        assert replaced == _norms(model) > 0


def test_a_norm_that_only_looks_alike_is_left_alone() -> None:
    class OffsetRMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.zeros(8)), 1e-6

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.rms_norm(x, (8,), 1 + self.weight, self.eps)

    class LateEpsRMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps)

    model = nn.ModuleDict({"offset": OffsetRMSNorm(), "late": LateEpsRMSNorm()})
    assert shorten_norms(model) == 0 and not any(isinstance(module, RowNorm) for module in model.modules())
