"""How Hydra heads are made, drafted with and written; what the trainer asks of every family. Knows no loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.hydra.checkpoint import save_heads
from backend.drafters.hydra.config import HydraConfig, HydraSettings
from backend.drafters.hydra.drafter import HydraDrafter
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.hydra.train import HydraLearner
from backend.drafters.layer.starting import layer_like, measured_sizes
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import Learner
from backend.drafters.recipe import take_weights
from backend.targets.target import FINAL, Target
from backend.trees import TreeShape


class HydraRecipe:
    """See recipe.Recipe."""

    def new_learner(
        self,
        settings: HydraSettings,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> HydraLearner:
        config = HydraConfig(
            hidden_size=target.hidden_size,
            vocab_size=target.vocab_size,
            num_heads=settings.num_heads,
            num_blocks=settings.num_blocks,
            shared_output=settings.shared_output,
            draft_vocab_size=None if tokens is None else len(tokens),
            prefix=layer_like(target) if settings.head_arch == "prefix-mlp" else None,
        )
        heads = HydraHeads(config)
        if weights is None:
            usual = measured_sizes(target, (FINAL,), texts)[0] if heads.prefix is not None and texts else 1.0
            heads.initialise(target.lm_head_weight().float().cpu(), tokens, usual_size=usual)
        else:
            take_weights(heads, weights)
        heads.hold_embedding(target.embedding_weight().float())
        return HydraLearner(heads.to(target.device), settings.loss_settings(), Teacher.of(target, heads.token_map))

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> HydraDrafter:
        heads = copy.deepcopy(_heads(learner)).to(target.device, target.dtype)
        return HydraDrafter(name, heads.for_drafting(target.packed_from), shape)

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        save_heads(folder, _heads(learner), meta, dtype)


def _heads(learner: Learner) -> HydraHeads:
    return cast(HydraLearner, learner).heads


RECIPE = HydraRecipe()
