"""How Medusa heads are made, drafted with and written; what the trainer asks of every family. Knows no loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.learning import Learner
from backend.drafters.medusa.checkpoint import save_heads
from backend.drafters.medusa.config import MedusaConfig, MedusaSettings
from backend.drafters.medusa.drafter import MedusaDrafter
from backend.drafters.medusa.model import HeadsForDrafting, MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.drafters.recipe import take_weights
from backend.targets.target import Target
from backend.trees import TreeShape


class MedusaRecipe:
    """See recipe.Recipe."""

    def new_learner(
        self,
        settings: MedusaSettings,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> MedusaLearner:
        config = MedusaConfig(
            hidden_size=target.hidden_size,
            vocab_size=target.vocab_size,
            num_heads=settings.num_heads,
            num_blocks=settings.num_blocks,
            shared_output=settings.shared_output,
            draft_vocab_size=None if tokens is None else len(tokens),
        )
        heads = MedusaHeads(config)
        if weights is None:
            heads.initialise(target.lm_head_weight().float().cpu(), tokens)
        else:
            take_weights(heads, weights)
        return MedusaLearner(heads.to(target.device), settings.loss_settings())

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> MedusaDrafter:
        # A copy: the layout for drafting may freeze what it is given, and the target's dtype may be a narrower one.
        heads = copy.deepcopy(_heads(learner)).to(target.device, target.dtype)
        return MedusaDrafter(name, HeadsForDrafting(heads), shape)

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        save_heads(folder, _heads(learner), meta, dtype)


def _heads(learner: Learner) -> MedusaHeads:
    return cast(MedusaLearner, learner).heads


RECIPE = MedusaRecipe()
