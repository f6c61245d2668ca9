"""How P-EAGLE heads are made, drafted with and written; what the trainer asks of every family. Knows no loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.eagle3.train import default_layers
from backend.drafters.layer.recipe import SEED
from backend.drafters.layer.starting import measured_sizes, state_scales
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import Learner
from backend.drafters.peagle.checkpoint import save_head
from backend.drafters.peagle.config import PeagleSettings
from backend.drafters.peagle.drafter import PeagleDrafter
from backend.drafters.peagle.train import PeagleLearner, empty_head, new_head
from backend.drafters.recipe import take_weights
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import TreeShape


class PeagleRecipe:
    """See recipe.Recipe."""

    family = "peagle"

    def new_learner(
        self,
        settings: PeagleSettings,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> PeagleLearner:
        drafted = torch.arange(target.vocab_size) if tokens is None else tokens
        reads = settings.reads or default_layers(target.num_layers)
        if max(reads) > target.num_layers:
            raise HeadwayError(
                f"Layer {max(reads)} does not exist: {target.name} has layers 0 to {target.num_layers}; read others."
            )
        sizes = measured_sizes(target, reads, texts)
        if weights is None:
            head = new_head(target, drafted, settings, state_scales(sizes), SEED)
        else:
            head = empty_head(target, len(drafted), settings)
            take_weights(head, weights)
            head.hold_embedding(target.embedding_weight().float())
        head.hold_sizes(sizes)
        head = head.to(target.device)
        return PeagleLearner(self.family, head, Teacher.of(target, head.token_map), settings.loss_settings())

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> PeagleDrafter:
        head = copy.deepcopy(cast(PeagleLearner, learner).model).to(target.device, target.dtype)
        return PeagleDrafter(name, head.for_drafting(target.packed_from), shape)

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        save_head(folder, cast(PeagleLearner, learner).model, meta, dtype)


RECIPE = PeagleRecipe()
