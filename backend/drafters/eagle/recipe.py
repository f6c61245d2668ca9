"""How an EAGLE head is made for training; the rest is layer/recipe.py's. Knows no loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle.model import EagleHead
from backend.drafters.eagle.train import empty_head, new_head
from backend.drafters.layer.recipe import SEED, PairRecipe
from backend.drafters.recipe import take_weights
from backend.targets.target import Target


class EagleRecipe(PairRecipe):
    family = "eagle"

    def new_model(
        self,
        settings: EagleSettings,
        target: Target,
        tokens: Tensor,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]],
    ) -> EagleHead:
        if weights is None:
            return new_head(target, tokens, SEED)
        head = empty_head(target, len(tokens))
        take_weights(head, weights)
        head.hold_target(target)
        return head.to(target.device)


RECIPE = EagleRecipe()
