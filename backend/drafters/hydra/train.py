"""Hydra: what the heads learn from. Labels, loss and hit counts only; the loop is training/loop.py.

As Medusa's, with the answer's own tokens standing for the path drafted so far (teacher forcing): head k reads the state
at t and the tokens t + 1 .. t + 1 + k and learns the token t + 2 + k (Hydra, arXiv 2402.05109, section 3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.fused_loss import linear_cross_entropy
from backend.drafters.hydra.config import HydraTrainConfig
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.learning import IGNORE, MAX_RANKS, Evaluation, FeatureBatch


class HydraLearner:
    """The heads with their loss."""

    family = "hydra"

    def __init__(self, heads: HydraHeads, config: HydraTrainConfig | None = None) -> None:
        self.heads, self.config = heads, config or HydraTrainConfig()
        self._draft_index = heads.draft_index()  # int64 [V]
        self._compute = torch.bfloat16 if self.config.compute == "bfloat16" else torch.float32

    @property
    def model(self) -> HydraHeads:
        return self.heads

    @property
    def settings(self) -> dict[str, Any]:
        return self.config.model_dump()

    @property
    def horizon(self) -> int:
        return self.heads.config.num_heads + 1

    def states(self, batch: FeatureBatch) -> Tensor:
        """What the output layers see with the answer's tokens as path: [K, T, H]."""
        tokens = batch.following.clamp(min=0)
        return torch.stack(
            [self.heads.state(k, batch.hidden, tokens[:, : k + 1]) for k in range(len(self.heads.joins))]
        )

    def labels(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        """(int64 [K, T] draft tokens, IGNORE where there is none to learn; bool [K, T] where the answer has a token at
        all).
        """
        tokens = batch.following[:, 1:].T
        present = tokens != IGNORE
        drafted = self._draft_index.to(tokens.device)[tokens.clamp(min=0)]
        return torch.where(present & (drafted >= 0), drafted, IGNORE), present

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        labels, _ = self.labels(batch)
        count = (labels != IGNORE).sum(dim=1).clamp(min=1)  # [K]
        weight = self.config.decay ** torch.arange(len(labels), device=labels.device) / count
        sums = linear_cross_entropy(self.states(batch), self.heads.output, labels, weight, self._compute)
        return sums.sum(), (sums / weight / count).detach()

    @torch.no_grad()
    def evaluate(self, batch: FeatureBatch) -> tuple[Evaluation, Tensor]:
        labels, present = self.labels(batch)
        losses, ranks = [], []
        for head, state in enumerate(self.states(batch)):
            scores = self.heads.scores(head, state)  # [T, Vd]
            losses.append(functional.cross_entropy(scores, labels[head], ignore_index=IGNORE, reduction="sum"))
            own = scores.gather(1, labels[head].clamp(min=0)[:, None])
            ranks.append((scores > own).sum(1).clamp(max=MAX_RANKS))
        learnable = labels != IGNORE
        rank = torch.where(learnable, torch.stack(ranks), MAX_RANKS)  # [K, T]
        hits = (functional.one_hot(rank, MAX_RANKS + 1) * present[..., None]).sum(1)
        counts = Evaluation(torch.stack(losses).double(), learnable.sum(1), present.sum(1), hits[:, :MAX_RANKS])
        return counts, torch.where(present, rank, IGNORE).T
