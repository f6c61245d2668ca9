"""What a family has to say so that it can be trained: how a learner is made, drafted with and written.

`recipe_of(family)` finds `RECIPE` in the family's recipe.py; a new family is a folder. Knows no training loop.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from backend.drafters.base import Drafter
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.learning import Learner
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.trees import TreeShape


class Recipe(Protocol):
    """One family's way from settings to a drafter. `settings` is the family's class of config.py."""

    def new_learner(
        self,
        settings: Any,
        target: Target,
        tokens: Tensor | None,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]] = (),
    ) -> Learner:
        """A learner on the target's device.

        tokens: int64 [Vd], the target tokens that can be drafted, None for all. weights: the model's state to start
        from instead of fresh weights; its own draft vocabulary then counts. texts: a few of the texts that will be
        learned from (token ids), for families that measure the target's states first. Raises HeadwayError when they
        don't fit.
        """
        ...

    def drafter(self, learner: Learner, target: Target, name: str, shape: TreeShape) -> Drafter:
        """A drafter of the weights as they are now, in the target's dtype; the learner is left as it is."""
        ...

    def save(self, folder: Path, learner: Learner, meta: DrafterMeta, dtype: torch.dtype) -> None:
        """Write the drafter's folder, whole or not at all. Raises HeadwayError."""
        ...


def recipe_of(family: str) -> Recipe:
    """The recipe of a family. Raises HeadwayError for one that can't be trained."""
    name = f"backend.drafters.{family}.recipe"
    try:
        recipe: Recipe = importlib.import_module(name).RECIPE
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # a package that the recipe itself needs
        raise HeadwayError(f"Drafters of the family {family!r} can't be trained; choose another family.") from None
    return recipe


def take_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Start `model` from weights. Raises HeadwayError that names the first difference when they are another model's."""
    expected = model.state_dict()
    problems = [f"{name} is missing" for name in sorted(expected.keys() - weights.keys())]
    problems += [f"{name} is unknown" for name in sorted(weights.keys() - expected.keys())]
    problems += [
        f"{name} is {list(weights[name].shape)} and should be {list(expected[name].shape)}"
        for name in sorted(expected.keys() & weights.keys())
        if weights[name].shape != expected[name].shape
    ]
    if problems:
        raise HeadwayError(
            f"The weights to start from don't fit these settings ({problems[0]}); use the settings they were trained "
            "with."
        )
    model.load_state_dict(dict(weights))
