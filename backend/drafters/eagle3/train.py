"""EAGLE-3: how a new head starts, and what it learns from by default.

The loss is the layer family's (layer/learner.py): soft cross-entropy at every test-time step, decaying weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.drafters.eagle3.config import Eagle3Config
from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.layer.learner import PairLearner, PairTrainConfig
from backend.drafters.layer.starting import draw_weights, layer_like
from backend.targets.target import Target

SMALL = PairTrainConfig(steps=4, decay=0.8)


def default_layers(num_layers: int) -> tuple[int, ...]:
    """Low, middle and high layer whose inputs are read: 2, L // 2 and L - 3, as published; fewer in shallow targets."""
    return tuple(sorted({min(2, num_layers - 1), num_layers // 2, max(num_layers - 3, 1)}))


def new_head(
    target: Target, token_map: Tensor, reads: Sequence[int], scales: Sequence[float], seed: int = 0
) -> Eagle3Head:
    """An untrained head for `target`; token_map int64 [Vd]. Its output rows start as the target's own."""
    config = Eagle3Config(
        layer=layer_like(target),
        target_hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        draft_vocab_size=len(token_map),
        reads=tuple(reads),
        state_scales=tuple(scales),
    )
    head = Eagle3Head(config)
    draw_weights(head, seed)
    head.token_map.copy_(token_map)
    with torch.no_grad():
        head.lm_head.weight.copy_(target.lm_head_weight()[token_map.to(target.device)])
    head.hold_embedding(target.embedding_weight())
    return head.to(target.device)


def learner_for(target: Target, head: Eagle3Head, config: PairTrainConfig = SMALL) -> PairLearner:
    return PairLearner("eagle3", head, target.lm_head_weight(), config)
