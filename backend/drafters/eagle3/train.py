"""EAGLE-3: how a new head starts. Its loss is the layer family's (layer/learner.py). Knows no loop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.eagle3.config import default_layers as default_layers
from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.layer.starting import draw_weights, layer_like
from backend.targets.target import Target

NORMS = ("norm_output", "norm_before_residual", "norm_before_fc", "fc_norm")


def empty_head(target: Target, draft_vocab_size: int, reads: Sequence[int], **norms: bool) -> Eagle3Head:
    """A head of the right shape without an embedding, on the CPU; `norms`: options of Eagle3Config."""
    config = Eagle3Config(
        layer=layer_like(target),
        target_hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        draft_vocab_size=draft_vocab_size,
        reads=tuple(reads),
        **norms,
    )
    return Eagle3Head(config)


def new_head(
    target: Target,
    token_map: Tensor,
    reads: Sequence[int],
    scales: Sequence[float],
    seed: int = 0,
    **norms: bool,
) -> Eagle3Head:
    """An untrained head for `target`; token_map int64 [Vd]. Its output rows start as the target's own, and `fc` hands
    the last of the layers read on, so that states start in the space of these rows, which learns faster.
    """
    head = empty_head(target, len(token_map), reads, **norms)
    draw_weights(head, seed)
    head.token_map.copy_(token_map)
    head.state_scale.copy_(torch.tensor(scales))
    with torch.no_grad():
        head.fc.weight[:, -target.hidden_size :] += torch.eye(target.hidden_size)
        head.lm_head.weight.copy_(target.lm_head_weight()[token_map.to(target.device)])
    head.hold_embedding(target.embedding_weight().float())
    return head.to(target.device)
