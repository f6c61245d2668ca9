"""The P-EAGLE head: an EAGLE-3 head, perhaps with more layers, that drafts a whole block in one pass.

The pair before the root is read as EAGLE-3 reads it. Where EAGLE-3 would go on with its own state and drafted token,
here stand *places*: a learned state instead of the target's, and the embedding of one fixed token. A place sees the
committed pairs and the places before it, none of which holds a drafted token, so all places are computed at once, and
what they say are distributions that do not depend on each other's tokens. Knows no tree and no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from backend.drafters.eagle3.model import Eagle3Head
from backend.drafters.layer.attention import DraftLayer, OrdinaryLayer
from backend.drafters.peagle.config import PeagleConfig
from backend.targets.packed_linear import PackedFrom


class PeagleHead(Eagle3Head):
    """See PairModel. mask_hidden: float [F], the state that stands at a place; it goes the way of the target's."""

    config: PeagleConfig

    def __init__(self, config: PeagleConfig) -> None:
        super().__init__(config)
        self.further = nn.ModuleList(OrdinaryLayer(config.layer) for _ in range(config.num_layers - 1))
        self.mask_hidden = nn.Parameter(torch.zeros(len(config.reads) * config.target_hidden_size))

    def for_drafting(self, packed_from: PackedFrom | None = None) -> PeagleHead:
        twin = super().for_drafting(packed_from)
        assert isinstance(twin, PeagleHead)
        return twin

    @property
    def stack(self) -> list[DraftLayer]:
        """All decoder layers, the first one first."""
        return [self.layer, *(part.layer for part in cast(Sequence[OrdinaryLayer], self.further))]

    def enter(self, number: int, state: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves layer `number` - 1 [B, T, H] -> (what layer `number`, from 1, projects, residual)."""
        part = cast(Sequence[OrdinaryLayer], self.further)[number - 1]
        return part.input_layernorm(state), state

    def places(self) -> tuple[Tensor, Tensor]:
        """(what the first layer projects [1, 1, 2H], residual [1, 1, H]) of any place."""
        token = torch.full((1, 1), self.config.mask_token_id, device=self.mask_hidden.device)
        return self.join(self.feature(self.mask_hidden[None, None]), token)
