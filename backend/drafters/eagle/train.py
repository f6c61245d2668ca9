"""EAGLE: how a new head starts. Its loss is the layer family's (layer/learner.py). Knows no loop."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle.model import EagleHead
from backend.drafters.layer.starting import STD, draw_weights, layer_like
from backend.targets.target import Target


def empty_head(target: Target, draft_vocab_size: int) -> EagleHead:
    """A head of the right shape without embedding and output rows, on the CPU."""
    size = None if draft_vocab_size == target.vocab_size else draft_vocab_size
    return EagleHead(EagleConfig(layer=layer_like(target), vocab_size=target.vocab_size, draft_vocab_size=size))


def new_head(target: Target, token_map: Tensor, seed: int = 0) -> EagleHead:
    """An untrained head for `target`; token_map int64 [Vd]. At first it hands the feature on as it is."""
    head = empty_head(target, len(token_map))
    draw_weights(head, seed)
    head.token_map.copy_(token_map)
    with torch.no_grad():
        width = target.hidden_size
        head.fc.weight[:, :width] *= 1.0 / max(float(target.embedding_weight().float().std()), STD)
        head.fc.weight[:, width:] += torch.eye(width)
    head.hold_target(target)
    return head.to(target.device)
