"""Drawing drafted siblings at random. Knows neither trees nor models."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_without_replacement(probs: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` different tokens from each distribution, in the order in which they were drawn.

    Args:
        probs: float [..., Vd], each sums to 1.
        count: draws, at most Vd.

    Returns int64 [..., count]. Exponential clocks: with E_i ~ Exp(1), the tokens sorted by E_i / p_i come in the same
    order as successive draws without replacement (the Gumbel-top-k trick of arXiv 1903.06059 without the logarithm);
    one pass, no loop.
    """
    clocks = torch.empty_like(probs).exponential_(generator=generator)
    tiny = torch.finfo(probs.dtype).tiny
    return (probs / clocks.clamp(min=tiny)).topk(count, dim=-1).indices
