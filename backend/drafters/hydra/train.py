"""Hydra: what the heads learn from. Labels, loss and hit counts only; the loop is training/loop.py.

As Medusa's, with the answer's own tokens standing for the path drafted so far (teacher forcing): head k reads the state
at t and the tokens t + 1 .. t + 1 + k and learns the token t + 2 + k (Hydra, arXiv 2402.05109, section 3), or what the
target says of that token. With a prefix layer the state is what leaves it at t; it is run over whole texts, and the
positions of their answers are then learned like any others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.fused_loss import linear_cross_entropy
from backend.drafters.hydra.config import HydraTrainConfig
from backend.drafters.hydra.model import HydraHeads
from backend.drafters.layer.token_loss import Teacher, token_loss
from backend.drafters.learning import IGNORE, MAX_RANKS, Evaluation, FeatureBatch, SequenceBatch, counted
from backend.targets.target import FINAL


class HydraLearner:
    """The heads with their loss."""

    family = "hydra"

    def __init__(
        self, heads: HydraHeads, config: HydraTrainConfig | None = None, teacher: Teacher | None = None
    ) -> None:
        """`teacher`: the target's output head for the heads' tokens; needed by all losses but the hard one."""
        self.heads, self.config, self.teacher = heads, config or HydraTrainConfig(), teacher
        if self.wants_ahead and teacher is None:
            raise ValueError(f"the loss {self.config.loss!r} needs a teacher")
        heads.dropout = self.config.dropout
        self.reads = () if heads.prefix is None else (FINAL,)
        self._draft_index = heads.draft_index()  # int64 [V]
        self._compute = torch.bfloat16 if self.config.compute == "bfloat16" else torch.float32

    @property
    def model(self) -> HydraHeads:
        return self.heads

    @property
    def settings(self) -> dict[str, Any]:
        # Runs begun before there was such a setting go on too.
        return self.config.model_dump(exclude=set() if self.config.dropout else {"dropout"})

    @property
    def wants_ahead(self) -> bool:
        return self.config.loss != "hard"

    @property
    def horizon(self) -> int:
        return self.heads.config.num_heads + 1

    def share(self, embedding: Tensor, head: Tensor) -> None:
        self.heads.embedding = embedding
        if self.teacher is not None:
            self.teacher = self.teacher.of_rows(head, self.heads.token_map)

    def positions(self, batch: FeatureBatch | SequenceBatch) -> FeatureBatch:
        """Positions as the heads learn from them: of whole texts those before a token of an answer, with what leaves
        the prefix layer there. A token that is none of an answer ends what follows.
        """
        if isinstance(batch, FeatureBatch):
            return batch
        prefix, width, horizon = self.heads.prefix, batch.tokens.shape[1], self.horizon
        assert prefix is not None, "asked for by reads"
        ahead = torch.arange(1, horizon + 1, device=batch.tokens.device)
        tokens = functional.pad(batch.tokens, (0, horizon)).unfold(1, width, 1)[:, 1:].transpose(1, 2)  # [B, T, F]
        learn = functional.pad(batch.learn, (0, horizon)).unfold(1, width, 1)[:, 1:].transpose(1, 2).long().cumprod(-1)
        places = learn[..., 0] > 0
        following = torch.where(learn > 0, tokens, IGNORE)[places]
        states = prefix(batch.states)[places]
        if not self.wants_ahead:
            return FeatureBatch(states, following)
        row, column = places.nonzero(as_tuple=True)
        later = (column[:, None] + ahead[:-1]).clamp(max=width - 1)
        return FeatureBatch(states, following, batch.final[row[:, None], later])

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

    def loss(self, batch: FeatureBatch | SequenceBatch) -> tuple[Tensor, Tensor]:
        total, batch = batch.total, self.positions(batch)
        labels, _ = self.labels(batch)
        count = counted((labels != IGNORE).sum(dim=1), total)  # [K]
        weight = self.config.decay ** torch.arange(len(labels), device=labels.device) / count
        if self.wants_ahead:
            sums = self._held_against_the_target(batch, labels, weight)
            return sums.sum(), (sums / weight / count).detach()
        sums = linear_cross_entropy(self.states(batch), self.heads.output, labels, weight, self._compute)
        return sums.sum(), (sums / weight / count).detach()

    def _held_against_the_target(self, batch: FeatureBatch, labels: Tensor, weight: Tensor) -> Tensor:
        """The losses of all heads where their token can be learned, float32 [K], weights inside. Head k guesses the
        token t + 2 + k, which the target's state at t + 1 + k predicts.
        """
        assert batch.ahead is not None and self.teacher is not None, "asked for by wants_ahead"
        sums = []
        for head, state in enumerate(self.states(batch)):
            learn = labels[head] != IGNORE
            rows = self.heads.output[0 if self.heads.config.shared_output else head]
            each = weight[head].expand(int(learn.sum()))
            taught = batch.ahead[learn, head]
            sums.append(
                token_loss(
                    self.config.loss, state[learn], rows, taught, labels[head][learn], each, self.teacher, self._compute
                )
            )
        return torch.stack(sums)

    @torch.no_grad()
    def evaluate(self, batch: FeatureBatch | SequenceBatch) -> tuple[Evaluation, Tensor]:
        batch = self.positions(batch)
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
