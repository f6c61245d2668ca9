"""A step in half the bits: products of the drafter in bfloat16, weights, gradients and optimiser in float32.

Torch's autocast decides by the operation; what it leaves to chance is settled here, so that a CPU computes what a GPU
does: norms see float32. The losses over the vocabulary have gradients of their own and take the same numbers for their
products (drafters/fused_loss.py, drafters/layer/token_loss.py). Knows no family.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from backend.training.config import Precision


@contextmanager
def computing_in(precision: Precision, model: nn.Module, device: torch.device) -> Iterator[None]:
    """While open, `model` computes in these numbers."""
    if precision == "float32":
        yield
        return
    norms = [part for part in model.modules() if isinstance(part, nn.RMSNorm | nn.LayerNorm)]
    handles = [norm.register_forward_pre_hook(_whole) for norm in norms]
    try:
        with torch.autocast(device.type, torch.bfloat16):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _whole(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args[0].float(), *args[1:])
