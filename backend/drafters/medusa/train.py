"""Medusa-1: what the heads learn from. Labels, loss and hit counts only; the loop is training/loop.py.

Position t predicts its next token t + 1 with the target's own head; head k (from 0) predicts the token t + 2 + k. The
loss is sum over k of 0.8^k times the mean cross-entropy of head k (Medusa, arXiv 2401.10774, section 2.2.1); the target
is frozen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.fused_loss import linear_cross_entropy
from backend.drafters.learning import IGNORE, MAX_RANKS, Evaluation, FeatureBatch
from backend.drafters.medusa.config import MedusaTrainConfig
from backend.drafters.medusa.model import MedusaHeads


class MedusaLearner:
    """The heads with their loss."""

    family = "medusa"
    reads: tuple[int, ...] = ()
    wants_ahead = False

    def __init__(self, heads: MedusaHeads, config: MedusaTrainConfig | None = None) -> None:
        self.heads, self.config = heads, config or MedusaTrainConfig()
        self._draft_index = heads.draft_index()  # int64 [V]
        self._compute = torch.bfloat16 if self.config.compute == "bfloat16" else torch.float32

    @property
    def model(self) -> MedusaHeads:
        return self.heads

    @property
    def settings(self) -> dict[str, Any]:
        return self.config.model_dump()

    @property
    def horizon(self) -> int:
        return self.heads.config.num_heads + 1

    def share(self, embedding: Tensor, head: Tensor) -> None:
        return None  # the heads read no token, and their output layers are their own

    def labels(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        """(int64 [K, T] draft tokens, IGNORE where there is none to learn; bool [K, T] where the answer has a token at
        all).
        """
        tokens = batch.following[:, 1:].T  # head 0 skips the next token, which the target itself predicts
        present = tokens != IGNORE
        drafted = self._draft_index.to(tokens.device)[tokens.clamp(min=0)]
        return torch.where(present & (drafted >= 0), drafted, IGNORE), present

    def loss(self, batch: FeatureBatch) -> tuple[Tensor, Tensor]:
        labels, _ = self.labels(batch)
        count = batch.counted((labels != IGNORE).sum(dim=1))  # [K]
        weight = self.config.decay ** torch.arange(len(labels), device=labels.device) / count
        sums = linear_cross_entropy(self.heads.states(batch.hidden), self.heads.output, labels, weight, self._compute)
        return sums.sum(), (sums / weight / count).detach()

    @torch.no_grad()
    def evaluate(self, batch: FeatureBatch) -> tuple[Evaluation, Tensor]:
        labels, present = self.labels(batch)
        states = self.heads.states(batch.hidden)
        losses, ranks = [], []
        for head, state in enumerate(states):  # one head at a time: the scores of all would be large
            scores = state @ self.heads.output[0 if self.heads.config.shared_output else head].T  # [T, Vd]
            losses.append(functional.cross_entropy(scores, labels[head], ignore_index=IGNORE, reduction="sum"))
            own = scores.gather(1, labels[head].clamp(min=0)[:, None])
            ranks.append((scores > own).sum(1).clamp(max=MAX_RANKS))
        learnable = labels != IGNORE
        rank = torch.where(learnable, torch.stack(ranks), MAX_RANKS)  # [K, T]
        hits = (functional.one_hot(rank, MAX_RANKS + 1) * present[..., None]).sum(1)
        counts = Evaluation(torch.stack(losses).double(), learnable.sum(1), present.sum(1), hits[:, :MAX_RANKS])
        return counts, torch.where(present, rank, IGNORE).T
