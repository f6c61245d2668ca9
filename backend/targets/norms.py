"""RMS norms of a target in one call each, for passes of few rows.

Model classes write the norm out in seven small operations. With few rows those cost more in dispatch than in
arithmetic, and a model has two a layer. torch's own `rms_norm` does the same in one call. Families differ (Gemma adds
one to the weight, some norm in groups), so nothing is assumed from a class's name: a module is replaced only when torch
gives exactly its numbers, and is left alone otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RowNorm(nn.Module):
    """y = x / sqrt(mean(x^2) + eps) * w over the last dimension, w [features]; not trainable."""

    def __init__(self, weight: nn.Parameter, eps: float) -> None:
        super().__init__()
        self.weight, self.eps, self.features = weight, eps, tuple(weight.shape)

    def forward(self, x: Tensor) -> Tensor:
        return torch.rms_norm(x, self.features, self.weight, self.eps)


def shorten_norms(model: nn.Module) -> int:
    """Replace every norm of `model` that RowNorm equals bit for bit; returns their number.

    The parameters stay the same objects under the same names, so hashing and saving see what they saw before.
    """
    replaced = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            short = _short(child)
            if short is not None:
                setattr(module, name, short)
                replaced += 1
    return replaced


@torch.inference_mode()
def _short(norm: nn.Module) -> RowNorm | None:
    """What does the same as `norm`, or None when it is no such norm or anything differs on a try."""
    weight = getattr(norm, "weight", None)
    eps = getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", None)  # the two names in transformers
    if not type(norm).__name__.endswith("RMSNorm") or not isinstance(weight, nn.Parameter) or weight.dim() != 1:
        return None
    if not isinstance(eps, float) or set(norm.state_dict()) != {"weight"}:
        return None
    short = RowNorm(weight, eps)
    generator = torch.Generator().manual_seed(0)
    for rows, scale in ((1, 1.0), (5, 1e-3), (3, 300.0)):  # with 1e-3 the place of eps shows
        x = scale * torch.randn(2, rows, weight.shape[0], generator=generator)
        x = x.to(weight.device, weight.dtype)
        if not torch.equal(norm(x), short(x)):
            return None
    return short
