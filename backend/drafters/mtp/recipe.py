"""How MTP modules are made, drafted with and written; what the trainer asks of every family. Knows no loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from backend.drafters.base import Drafter
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.layer.recipe import SEED
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import Learner
from backend.drafters.mtp.checkpoint import save_modules
from backend.drafters.mtp.config import MtpSettings
from backend.drafters.mtp.drafter import drafter_of
from backend.drafters.mtp.train import MtpLearner, empty_model, new_model
from backend.drafters.recipe import take_weights
from backend.targets.target import Target
from backend.trees import TreeShape


class MtpRecipe:
    """See recipe.Recipe."""

    family = "mtp"

    def new_learner(
        self,
        settings: MtpSettings,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> MtpLearner:
        drafted = torch.arange(target.vocab_size) if tokens is None else tokens
        if weights is None:
            model = new_model(target, drafted, settings, SEED)
        else:
            model = empty_model(target, len(drafted), settings)
            take_weights(model, weights)
            model.hold_target(target)
            model = model.to(target.device)
        return MtpLearner(self.family, model, Teacher.of(target, model.token_map), settings.loss_settings())

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> Drafter:
        model = copy.deepcopy(cast(MtpLearner, learner).model).to(target.device, target.dtype)
        return drafter_of(name, model.for_drafting(target.packed_from), shape)

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        save_modules(folder, cast(MtpLearner, learner).model, meta, dtype)


RECIPE = MtpRecipe()
