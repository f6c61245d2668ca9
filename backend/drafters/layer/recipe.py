"""How drafters with a layer of their own are made, drafted with and written: the part that all such families share.

A family derives `PairRecipe` and says how its model starts. Knows no loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta, write_model
from backend.drafters.layer.drafting import PairDrafter
from backend.drafters.layer.learner import PairLearner
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.token_loss import Teacher
from backend.drafters.learning import Learner
from backend.targets.target import Target
from backend.trees import TreeShape

SEED = 0  #: of newly drawn weights; the training's own seed orders the data


class PairRecipe(ABC):
    """See recipe.Recipe."""

    family: str

    @abstractmethod
    def new_model(
        self,
        settings: Any,
        target: Target,
        tokens: Tensor,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]],
    ) -> PairModel:
        """A model on the target's device in float32, fresh or with `weights`; see Recipe.new_learner."""

    def new_learner(
        self,
        settings: Any,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> PairLearner:
        drafted = torch.arange(target.vocab_size) if tokens is None else tokens
        model = self.new_model(settings, target, drafted, weights, texts)
        return PairLearner(self.family, model, Teacher.of(target, model.token_map), settings.loss_settings())

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> PairDrafter:
        model = _model(learner).twin().to(target.device, target.dtype)
        return PairDrafter(self.family, name, model.for_drafting(target.packed_from), shape)

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        model: Any = _model(learner)  # each family's model has its own kind of config
        write_model(folder, self.family, model.config, model, meta, dtype)


def _model(learner: Learner) -> PairModel:
    return cast(PairLearner, learner).model
