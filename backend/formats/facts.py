"""What exporting, importing and checking have to know of the target a drafter is for. Knows no drafter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.drafters.layer.config import LayerShape
from backend.targets.target import Target


@dataclass(frozen=True)
class TargetFacts:
    """A target's sizes, its two vocabulary matrices [V, H] in float32, and who it is. `layer`: one like its own."""

    name: str
    version: dict[str, str]
    hidden_size: int
    vocab_size: int
    num_layers: int
    max_context: int
    model_type: str
    architectures: tuple[str, ...]
    rope_theta: float
    rms_norm_eps: float
    embedding: Tensor
    lm_head: Tensor
    layer: LayerShape


def facts_of(target: Target) -> TargetFacts:
    """Copies of what is needed, so that the target may be let go."""
    from backend.drafters.layer.starting import layer_like

    layer, config = layer_like(target), target.config
    return TargetFacts(
        name=target.name,
        version=target.identity.to_dict(),
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        num_layers=target.num_layers,
        max_context=target.max_context,
        model_type=str(getattr(config, "model_type", "")),
        architectures=tuple(getattr(target.model.config, "architectures", None) or (type(target.model).__name__,)),
        rope_theta=layer.rope_theta,
        rms_norm_eps=layer.rms_norm_eps,
        embedding=target.embedding_weight().float().cpu(),
        lm_head=target.lm_head_weight().float().cpu(),
        layer=layer,
    )


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Whether two matrices hold the same numbers, as far as the narrower of their dtypes can tell."""
    if one.shape != other.shape:
        return False
    narrow = torch.finfo(one.dtype).eps >= torch.finfo(other.dtype).eps
    dtype = one.dtype if narrow else other.dtype
    first, second = one.to(dtype).float(), other.to(dtype).float()
    return bool(torch.allclose(first, second, rtol=2 * torch.finfo(dtype).eps, atol=1e-6))
