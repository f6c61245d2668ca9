"""How large a drafter is and what training it costs, worked out from its settings before anything is made. Torch-free.

Each family's sizes.py counts its own layers; whoever plans a training asks `sizes_of` and knows no family.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from backend.drafters.family import FamilySettings


@dataclass(frozen=True)
class DrafterSizes:
    """Counts for one drafter of one target.

    Args:
        parameters: trained numbers; a checkpoint keeps each three times (weight and two moments of the optimiser).
        step_flops, evaluate_flops: floating-point operations a position, of a training step and of an evaluation.
        fixed_bytes: what training holds whatever the batch: weights, gradients, moments, and the loss's own buffers.
        position_bytes: what a position of a batch adds at the peak.
    """

    parameters: int
    step_flops: float
    evaluate_flops: float
    fixed_bytes: int
    position_bytes: int


@dataclass(frozen=True)
class LayerWeights:
    """Numbers in one of the target's own layers, for drafters that have a layer like it: all of its matrices, and of
    those the ones that make queries, keys and values. 0 where nobody knows; it is then guessed from the width.
    """

    all: int = 0
    qkv: int = 0

    def known(self, hidden_size: int) -> LayerWeights:
        """Itself, with Llama's usual proportions for what is missing."""
        whole = self.all or 12 * hidden_size**2
        return LayerWeights(whole, self.qkv or min(whole, 2 * hidden_size**2))


def sizes_of(
    settings: FamilySettings, hidden_size: int, vocab_size: int, layer: LayerWeights | None = None
) -> DrafterSizes:
    """Ask the family's sizes.py. Raises ValueError for a family that has none."""
    try:
        family = importlib.import_module(f"backend.drafters.{settings.family}.sizes")
    except ModuleNotFoundError:
        raise ValueError(f"the family {settings.family!r} says nothing about its sizes") from None
    sizes: DrafterSizes = family.sizes(settings, hidden_size, vocab_size, (layer or LayerWeights()).known(hidden_size))
    return sizes
