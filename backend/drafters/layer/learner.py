"""Training a decoder layer over (feature, token) pairs, with any number of test-time steps.

Step 0 is an ordinary causal pass over the pairs of an answer. At step j the layer is fed its own features of step
j - 1, one place on: column t then stands where a chain drafted from the prefix up to t stands at depth j + 1. It sees
the pairs of step 0 up to t, as committed ones, and of the later steps its own column only, as a chain does (EAGLE-3,
arXiv 2503.01840, section 3). The tokens fed are those of the answer. With one step and a loss on the features this is
EAGLE's own training (arXiv 2401.15077, section 4.2).

Labels and counts only; the loop is training/loop.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional

from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.soft_loss import soft_cross_entropy
from backend.drafters.learning import IGNORE, MAX_RANKS, Evaluation


class PairTrainConfig(BaseModel):
    """What of the training of such layers is not the loop's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(4, ge=1, le=16, description="test-time steps: depths that are trained on own features")
    decay: float = Field(0.8, gt=0, le=1, description="step j's loss counts decay^j")
    token_weight: float = Field(1.0, ge=0, description="weight of the cross-entropy with the target's distribution")
    feature_weight: float = Field(0.0, ge=0, description="weight of the distance to the target's own next feature")
    noise: float = Field(0.0, ge=0, le=1, description="uniform noise of this size is added to the features read")
    compute: str = Field(
        "float32", pattern="^(float32|bfloat16)$", description="dtype of the products with the output rows"
    )


@dataclass(frozen=True)
class SequenceBatch:
    """B texts, padded on the right to T tokens, each with the target's states at all of them.

    Args:
        tokens: int64 [B, T].
        states: float [B, T, F], of the layers the model reads.
        final: float [B, T, Ht], last hidden state after the final norm: the one that predicts the next token.
        learn: bool [B, T], tokens of an answer, those to be predicted.
    """

    tokens: Tensor
    states: Tensor
    final: Tensor
    learn: Tensor

    def to(self, device: torch.device) -> SequenceBatch:
        return SequenceBatch(*(value.to(device) for value in (self.tokens, self.states, self.final, self.learn)))


class PairLearner:
    """A `PairModel` with its loss. `teacher_head` float [V, Ht] is the target's output head, frozen."""

    def __init__(self, family: str, model: PairModel, teacher_head: Tensor, config: PairTrainConfig) -> None:
        self.family, self.model, self.config = family, model, config
        self.teacher_rows = teacher_head.detach()[model.token_map.to(teacher_head.device)]
        self.teacher_head = teacher_head.detach()
        self._compute = torch.bfloat16 if config.compute == "bfloat16" else torch.float32
        self._draft_index = model.draft_index()

    @property
    def settings(self) -> dict[str, object]:
        return self.config.model_dump()

    @property
    def horizon(self) -> int:
        """Following tokens that a position must have to be learned at all depths."""
        return self.config.steps + 1

    def outputs(self, batch: SequenceBatch, noise: Tensor | None = None) -> list[Tensor]:
        """What leaves the layer at each test-time step, each [B, T, H]; column t of step j predicts token t + j + 2."""
        layer, width = self.model.layer, batch.tokens.shape[1]
        device = batch.tokens.device
        feature = self.model.feature(batch.states if noise is None else batch.states + noise)
        causal = torch.ones(1, width, width, dtype=torch.bool, device=device).tril()
        own = torch.eye(width, dtype=torch.bool, device=device)[None]
        blocks: list[KeyBlock] = []
        found = []
        for step in range(self.config.steps):
            tokens = functional.pad(batch.tokens, (0, step + 1))[:, step + 1 :]  # token t + step + 1 in column t
            inputs, residual = self.model.join(feature, tokens)
            positions = torch.arange(step, width + step, device=device)[None]
            keys, values = layer.key_value(inputs, positions)
            blocks.append(KeyBlock(keys, values, causal if step == 0 else own))
            output = layer.finish(residual, _attend_own(layer.query(inputs, positions), blocks))
            found.append(output)
            feature = self.model.recycled(output)
        return found

    def loss(self, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """(what is minimised, scalar; each step's mean cross-entropy, detached [K])."""
        noise = None
        if self.config.noise:
            noise = (torch.rand_like(batch.states) - 0.5) * (2 * self.config.noise)
        total, means = batch.final.new_zeros((), dtype=torch.float32), []
        for step, output in enumerate(self.outputs(batch, noise)):
            teacher, learn = self._teacher(batch, step)
            count = learn.sum().clamp(min=1)
            entropy, _ = soft_cross_entropy(
                self.model.scored(output)[learn],
                self.model.output_rows(),
                teacher[learn],
                self.teacher_rows,
                learn.new_ones(int(learn.sum()), dtype=torch.float32) / count,
                self._compute,
            )
            part = self.config.token_weight * entropy
            if self.config.feature_weight:
                part = part + self.config.feature_weight * functional.smooth_l1_loss(output[learn], teacher[learn])
            total = total + self.config.decay**step * part
            means.append(entropy.detach())
        return total, torch.stack(means)

    def _teacher(self, batch: SequenceBatch, step: int) -> tuple[Tensor, Tensor]:
        """What column t of a step is held against: the target's state at t + step + 1 [B, T, Ht], and bool [B, T] where
        the token it predicts belongs to an answer and the target's own best token can be drafted.
        """
        ahead = step + 1
        teacher = functional.pad(batch.final, (0, 0, 0, ahead))[:, ahead:]
        learn = functional.pad(batch.learn, (0, ahead + 1))[:, ahead + 1 :]
        return teacher, learn & self._draftable(batch, ahead)

    @torch.no_grad()
    def _draftable(self, batch: SequenceBatch, ahead: int) -> Tensor:
        """bool [B, T]: the token that stands at t + ahead + 1 can be drafted. Answers are the target's own, so at
        temperature 0 this is its best token; where it is not, the target's distribution leans on tokens that can't be.
        """
        following = functional.pad(batch.tokens, (0, ahead + 1))[:, ahead + 1 :]
        return self._draft_index.to(following.device)[following] >= 0

    @torch.no_grad()
    def evaluate(self, batch: SequenceBatch) -> tuple[Evaluation, Tensor]:
        """Counts, and the rank of the token that stands at each place, int64 [P, K] over the P places of the batch that
        have one at depth 1: MAX_RANKS when worse or not draftable, IGNORE past the answer's end.
        """
        losses, scored, positions, hits, ranks = [], [], [], [], []
        first = functional.pad(batch.learn, (0, 1))[:, 1:] & functional.pad(batch.learn, (0, 2))[:, 2:]
        for step, output in enumerate(self.outputs(batch)):
            following = functional.pad(batch.tokens, (0, step + 2))[:, step + 2 :]
            present = functional.pad(batch.learn, (0, step + 2))[:, step + 2 :] & first
            label = self._draft_index.to(following.device)[following]
            learnable = present & (label >= 0)
            scores = self.model.scores(output[first])  # [P, Vd]
            own = scores.gather(1, label[first].clamp(min=0)[:, None])
            rank = torch.where(learnable[first], (scores > own).sum(1).clamp(max=MAX_RANKS), MAX_RANKS)
            losses.append((scores.logsumexp(1) - own[:, 0])[learnable[first]].double().sum())
            scored.append(learnable.sum())
            positions.append(present.sum())
            counted = functional.one_hot(rank, MAX_RANKS + 1) * present[first][:, None]
            hits.append(counted.sum(0)[:MAX_RANKS])
            ranks.append(torch.where(present[first], rank, IGNORE))
        counts = Evaluation(torch.stack(losses), torch.stack(scored), torch.stack(positions), torch.stack(hits))
        return counts, torch.stack(ranks, dim=1)


def _attend_own(query: Tensor, blocks: list[KeyBlock]) -> Tensor:
    """Attention in which the keys of later steps are seen by their own column only.

    Their scores are one number a column and step, so they are computed as such instead of as a masked square.
    """
    first, later = blocks[0], blocks[1:]
    if not later:
        return attend(query, [first])
    batch, heads, width, size = query.shape
    grouped = query.view(batch, first.keys.shape[1], -1, width, size) * size**-0.5  # [B, nkv, g, T, hd]
    square = (grouped @ first.keys[:, :, None].transpose(-1, -2)).masked_fill(
        ~first.seen[:, None, None], torch.finfo(query.dtype).min
    )
    own = torch.stack([(grouped * block.keys[:, :, None]).sum(-1) for block in later], dim=-1)  # [B, nkv, g, T, j]
    weights = torch.softmax(torch.cat([square, own], dim=-1), dim=-1)
    mixed = weights[..., :width] @ first.values[:, :, None]
    for place, block in enumerate(later):
        mixed = mixed + weights[..., width + place, None] * block.values[:, :, None]
    return mixed.reshape(batch, heads, width, size)
