"""The EAGLE head: joins the token's embedding and the last hidden state, runs one decoder layer without a norm in
front, and is scored by the target's own head.

What leaves the layer is a guess of the target's next hidden state, after its final norm. Embedding and output rows are
the target's, frozen and not saved. Tensor names follow the published layout; `fc` has a bias in some
imported heads; new ones have none, so that they export.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from backend.drafters.eagle.config import EagleConfig
from backend.drafters.layer.attention import DraftLayer
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.token_loss import Teacher
from backend.targets.packed_linear import PackedFrom, pack_linear
from backend.targets.target import FINAL, Target


class EagleHead(PairModel):
    """See PairModel."""

    config: EagleConfig
    head_rows: Tensor

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config, self.reads = config, (FINAL,)
        width = config.layer.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.fc_bias)
        self.layer = DraftLayer(config.layer, width)
        self.packed_head: nn.Module | None = None
        self.register_buffer("token_map", torch.arange(config.output_size))

    def hold_target(self, target: Target) -> None:
        """Use the target's embedding and, of its output rows, those of the token map. The map must not change later."""
        self.hold_embedding(target.embedding_weight().float())
        rows = Teacher.of(target, self.token_map).rows
        self.register_buffer("head_rows", rows, persistent=False)

    def share(self, embedding: Tensor, head: Tensor) -> None:
        super().share(embedding, head)
        self.head_rows = head[self.token_map]

    def for_drafting(self, packed_from: PackedFrom | None = None) -> EagleHead:
        twin = super().for_drafting(packed_from)
        assert isinstance(twin, EagleHead)
        twin.packed_head = pack_linear(twin.head_rows, None, packed_from)
        return twin

    def scores(self, output: Tensor) -> Tensor:
        if self.packed_head is None:
            return super().scores(output)
        scores: Tensor = self.packed_head(output)
        return scores

    def feature(self, states: Tensor) -> Tensor:
        return states.to(self.embedding.dtype)

    def join(self, feature: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        joined: Tensor = self.fc(torch.cat([self.embed(tokens), feature], dim=-1))
        return joined, joined

    def recycled(self, output: Tensor) -> Tensor:
        return output

    def scored(self, output: Tensor) -> Tensor:
        return output

    def output_rows(self) -> Tensor:
        return self.head_rows
