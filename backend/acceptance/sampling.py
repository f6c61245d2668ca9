"""Drawing tokens from probabilities, one or several without replacement. Knows nothing of trees, models or settings.

`draw` takes its randomness as numbers, so that a test can hand the same numbers to a slow twin.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Chance = torch.Generator | Sequence[torch.Generator] | None
"""Where random numbers come from: one generator for all rows, one for each row (then a row's numbers do not depend on
which rows stand beside it), or torch's global one."""


def uniforms(shape: tuple[int, ...], generator: Chance, device: torch.device) -> Tensor:
    """float64 [*shape] in [0, 1) on `device`, drawn on the generators' own device; shape[0] counts the rows."""
    if isinstance(generator, Sequence):
        rows = [torch.rand(shape[1:], dtype=torch.float64, generator=one, device=one.device) for one in generator]
        return torch.stack(rows).to(device, non_blocking=True)
    source = device if generator is None else generator.device
    return torch.rand(shape, dtype=torch.float64, generator=generator, device=source).to(device, non_blocking=True)


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """One token a row by inverse CDF: int64 [B] from probs float [B, V] and uniform float64 [B] in [0, 1).

    The rows of `probs` need not sum to one.
    Never returns a token of probability zero: such a token adds nothing to the cumulative sum, so it is never the first
    place where the sum exceeds the target. The sum runs in float64 (float32 would lose the tail of a large vocabulary),
    and the target is kept below the total, which rounding could otherwise reach.
    """
    cumulative = probs.cumsum(-1, dtype=torch.float64)  # [B, V]
    total = cumulative[:, -1]
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    token = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
    return token.clamp(max=probs.shape[-1] - 1)  # changes only rows of zeros or NaN: they must not fault the device


def sample_without_replacement(probs: Tensor, k: int, generator: torch.Generator | None = None) -> Tensor:
    """k different tokens a row in drawing order: int64 [..., k] from probs float [..., V].

    An exponential race (the same as Gumbel top-k: Kool et al., 2019, arXiv:1903.06059). Token v arrives at time
    E_v / p_v with E_v ~ Exp(1), that is at rate p_v. The first arrival is v with probability p_v / sum p. Exponential
    times have no memory, so what follows is a fresh race among the others, and the next arrival is v with probability
    p_v / (sum of the rates left). Order of arrival therefore has the law of drawing one by one, removing what was drawn
    and renormalising. Tokens of probability zero come last, and only when fewer than k others are left.
    """
    arrival = -uniforms(tuple(probs.shape), generator, probs.device).log()  # float64: 24 bits would tie rare tokens
    return (probs / arrival).topk(k, dim=-1).indices
