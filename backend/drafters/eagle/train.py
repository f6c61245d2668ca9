"""EAGLE: how a new head starts, and what it learns from by default.

The published recipe is one step with teacher-forced features: smooth L1 to the target's next feature, a tenth of a soft
cross-entropy through the target's frozen head, and uniform noise on the features (arXiv 2401.15077, section 4.2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.drafters.eagle.config import EagleConfig
from backend.drafters.eagle.model import EagleHead
from backend.drafters.layer.learner import PairLearner, PairTrainConfig
from backend.drafters.layer.starting import STD, draw_weights, layer_like
from backend.targets.target import Target

PAPER = PairTrainConfig(steps=1, token_weight=0.1, feature_weight=1.0, noise=0.1)


def new_head(target: Target, token_map: Tensor, seed: int = 0) -> EagleHead:
    """An untrained head for `target`; token_map int64 [Vd]. At first it hands the feature on as it is."""
    size = None if len(token_map) == target.vocab_size else len(token_map)
    head = EagleHead(EagleConfig(layer=layer_like(target), vocab_size=target.vocab_size, draft_vocab_size=size))
    draw_weights(head, seed)
    head.token_map.copy_(token_map)
    with torch.no_grad():
        width = target.hidden_size
        head.fc.weight[:, :width] *= 1.0 / max(float(target.embedding_weight().float().std()), STD)
        head.fc.weight[:, width:] += torch.eye(width)
    head.hold_embedding(target.embedding_weight())
    head.hold_head(target.lm_head_weight())
    return head.to(target.device)


def learner_for(target: Target, head: EagleHead, config: PairTrainConfig = PAPER) -> PairLearner:
    return PairLearner("eagle", head, target.lm_head_weight(), config)
