"""How a new decoder layer starts: sizes taken from the target, weights drawn, states brought to like size.

Knows the target's configuration, not its data beyond the states it is handed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from backend.drafters.layer.config import LayerShape
from backend.targets.target import Target

STD = 0.02  #: of newly drawn matrices, as Llama's
MEASURED = 512  #: tokens of a text that the sizes of states are measured on


def layer_like(target: Target) -> LayerShape:
    """The sizes of one of the target's own layers."""
    config = target.config
    heads = int(config.num_attention_heads)
    head_dim = getattr(config, "head_dim", None) or target.hidden_size // heads
    inner = getattr(config, "intermediate_size", None) or 4 * target.hidden_size
    rope = getattr(config, "rope_parameters", None) or {}
    theta = rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0
    return LayerShape(
        hidden_size=target.hidden_size,
        num_heads=heads,
        num_kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(head_dim),
        intermediate_size=int(inner),
        rope_theta=float(theta),
        rms_norm_eps=float(getattr(config, "rms_norm_eps", None) or 1e-5),
    )


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int) -> None:
    """Normal matrices of standard deviation STD, norms at one. Buffers stay as they are."""
    generator = torch.Generator().manual_seed(seed)
    for _, weight in sorted(model.named_parameters()):
        if weight.dim() > 1:
            weight.copy_(torch.randn(weight.shape, generator=generator) * STD)
        else:
            weight.fill_(1.0)


def usual_sizes(states: Tensor, parts: int) -> tuple[float, ...]:
    """The usual root mean square of each layer's states, at least 1e-6.

    states: float [P, F] of many positions, `parts` layers side by side. The median over positions is taken, because
    some targets have an attention sink: a first token whose states are thousands of times larger than all others.
    """
    sizes = states.float().unflatten(-1, (parts, -1)).square().mean(-1).sqrt().median(dim=0).values
    return tuple(max(float(size), 1e-6) for size in sizes)


def measured_sizes(target: Target, reads: Sequence[int], texts: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """See usual_sizes; over all positions of these texts. Infinite, as unknown, where there are none."""
    if not texts:
        return (math.inf,) * len(reads)
    found = []
    for text in texts:
        ids = torch.tensor([list(text[:MEASURED])], device=target.device)
        found.append(target.hidden_states(ids, torch.ones_like(ids, dtype=torch.bool), reads)[0])
    return usual_sizes(torch.cat(found), len(reads))


def state_scales(sizes: Sequence[float]) -> tuple[float, ...]:
    """One power of two a layer that brings its usual states near 1; no number is rounded by it. 1 for unknown sizes."""
    return tuple(2.0 ** -round(math.log2(size)) if math.isfinite(size) else 1.0 for size in sizes)
