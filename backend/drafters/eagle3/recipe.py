"""How an EAGLE-3 head is made for training; the rest is layer/recipe.py's. Knows no loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.eagle3.train import NORMS, default_layers, empty_head, new_head
from backend.drafters.layer.recipe import SEED, PairRecipe
from backend.drafters.layer.starting import measured_sizes, state_scales
from backend.drafters.recipe import take_weights
from backend.errors import HeadwayError
from backend.targets.target import Target


class Eagle3Recipe(PairRecipe):
    family = "eagle3"

    def new_model(
        self,
        settings: Eagle3Settings,
        target: Target,
        tokens: Tensor,
        weights: Mapping[str, Tensor] | None,
        texts: Sequence[Sequence[int]],
    ) -> Eagle3Head:
        reads = default_layers(target.num_layers) if settings.reads is None else settings.reads
        if max(reads) > target.num_layers:
            raise HeadwayError(
                f"Layer {max(reads)} does not exist: {target.name} has layers 0 to {target.num_layers}; read others."
            )
        norms = {name: bool(getattr(settings, name)) for name in NORMS}
        sizes = measured_sizes(target, reads, texts)
        if weights is None:
            scales = [1.0] * len(reads) if settings.fc_norm or settings.norm_before_fc else state_scales(sizes)
            head = new_head(target, tokens, reads, scales, SEED, **norms)
        else:
            head = empty_head(target, len(tokens), reads, **norms)
            take_weights(head, weights)
            head.hold_embedding(target.embedding_weight().float())
        head.hold_sizes(sizes)
        return head.to(target.device)


RECIPE = Eagle3Recipe()
