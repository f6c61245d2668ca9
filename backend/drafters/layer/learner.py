"""Training a decoder layer over (feature, token) pairs, with any number of test-time steps.

Step 0 is an ordinary causal pass over the pairs of an answer. At step j the layer is fed its own features of step
j - 1, one place on: column t then stands where a chain drafted from the prefix up to t stands at depth j + 1. It sees
the pairs of step 0 up to t, as committed ones, and of the later steps its own column only, as a chain does (EAGLE-3,
arXiv 2503.01840, section 3). The tokens fed are those of the answer. With one step and a loss on the features this is
EAGLE's own training (arXiv 2401.15077, section 4.2).

Labels and counts only; the loop is training/loop.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from backend.drafters.layer.attention import KeyBlock, attend
from backend.drafters.layer.config import PairTrainConfig
from backend.drafters.layer.pair_model import PairModel
from backend.drafters.layer.token_loss import CHUNK, Teacher, token_loss
from backend.drafters.learning import IGNORE, MAX_RANKS, Evaluation, SequenceBatch


class PairLearner:
    """A `PairModel` with its loss; `teacher` is the target's output head, frozen."""

    wants_ahead = False

    def __init__(self, family: str, model: PairModel, teacher: Teacher, config: PairTrainConfig) -> None:
        self.family, self.model, self.teacher, self.config = family, model, teacher, config
        self.reads = model.reads
        self._compute = torch.bfloat16 if config.compute == "bfloat16" else torch.float32
        self._draft_index = model.draft_index()

    @property
    def settings(self) -> dict[str, object]:
        return self.config.model_dump()

    @property
    def horizon(self) -> int:
        """Following tokens that a position must have to be learned at all depths."""
        return self.config.steps + 1

    def share(self, embedding: Tensor, head: Tensor) -> None:
        self.model.share(embedding, head)
        self.teacher = self.teacher.of_rows(head, self.model.token_map)

    def outputs(self, batch: SequenceBatch, noise: Tensor | None = None, steps: int | None = None) -> list[Tensor]:
        """What leaves the layer at each test-time step (None: those trained), each [B, T, H]; column t of step j
        predicts token t + j + 2.
        """
        layer, width = self.model.layer, batch.tokens.shape[1]
        device = batch.tokens.device
        feature = self.model.feature(batch.states if noise is None else batch.states + noise)
        causal = torch.ones(1, width, width, dtype=torch.bool, device=device).tril()
        own = torch.eye(width, dtype=torch.bool, device=device)[None]
        blocks: list[KeyBlock] = []
        found = []
        for step in range(self.config.steps if steps is None else steps):
            tokens = functional.pad(batch.tokens, (0, step + 1))[:, step + 1 :]  # token t + step + 1 in column t
            inputs, residual = self.model.join(feature, tokens)
            positions = torch.arange(step, width + step, device=device)[None]
            keys, values = layer.key_value(inputs, positions)
            blocks.append(KeyBlock(keys, values, causal if step == 0 else own))
            output = layer.finish(residual, attend_own(layer.query(inputs, positions), blocks))
            found.append(output)
            feature = self.model.recycled(output)
        return found

    def loss(self, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
        """(what is minimised, scalar; each step's mean loss on tokens, detached [K])."""
        config, noise = self.config, None
        if config.noise:
            noise = (torch.rand_like(batch.states) - 0.5) * (2 * config.noise)
        total, means = batch.final.new_zeros((), dtype=torch.float32), []
        ordinary = ~self.model.extreme(batch.states)
        for step, output in enumerate(self.outputs(batch, noise)):
            taught, labels, answered = self._taught(batch, step)
            learn = (labels != IGNORE) & ordinary
            count, own = float(batch.counted(learn.sum())), int(learn.sum())
            weight = torch.full((own,), 1.0 / count, device=output.device)
            found, wanted = output[learn], taught[learn]
            part = token_loss(
                config.loss, self.model.scored(found), self.model.output_rows(), wanted, labels[learn], weight,
                self.teacher, self._compute,
            )  # fmt: skip
            means.append(part.detach())
            part = config.token_weight * part
            if config.feature_weight:
                felt = answered & ordinary  # a state is worth learning whether or not its token can be drafted
                part = part + config.feature_weight * _mean_distance(batch, output[felt], taught[felt])
            total = total + config.decay**step * part
        return total, torch.stack(means)

    def _taught(self, batch: SequenceBatch, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """What column t of a step is held against: the target's state at t + step + 1 [B, T, Ht]; int64 [B, T] the
        draft token that stands at t + step + 2, IGNORE where that is none of an answer or can't be drafted; and bool
        [B, T] where it is one of an answer, draftable or not.

        Answers are the target's own, so at temperature 0 the token is its best one; where it can't be drafted, the
        target's distribution leans on tokens that can't be, and says little about the others. In answers at temperature
        1 a position is left out with the probability that its token can't be drafted, which weighs it by just as much.
        """
        ahead = step + 1
        taught = functional.pad(batch.final, (0, 0, 0, ahead))[:, ahead:]
        answered = functional.pad(batch.learn, (0, ahead + 1))[:, ahead + 1 :]
        following = functional.pad(batch.tokens, (0, ahead + 1))[:, ahead + 1 :]
        label = self._draft_index.to(following.device)[following]
        return taught, torch.where(answered & (label >= 0), label, IGNORE), answered

    @torch.no_grad()
    def evaluate(self, batch: SequenceBatch) -> tuple[Evaluation, Tensor]:
        """Counts, and the rank of the token that stands at each place, int64 [P, K] over the P places of the batch that
        have one at depth 1: MAX_RANKS when worse or not draftable, IGNORE past the answer's end.
        """
        losses, scored, positions, hits, ranks = [], [], [], [], []
        first = functional.pad(batch.learn, (0, 1))[:, 1:] & functional.pad(batch.learn, (0, 2))[:, 2:]
        depth = self.config.depth or self.config.steps
        for step, output in enumerate(self.outputs(batch, steps=depth)):
            following = functional.pad(batch.tokens, (0, step + 2))[:, step + 2 :]
            present = functional.pad(batch.learn, (0, step + 2))[:, step + 2 :] & first
            label = self._draft_index.to(following.device)[following]
            learnable = present & (label >= 0)
            found, loss = self._ranks(output[first], label[first].clamp(min=0))
            rank = torch.where(learnable[first], found, MAX_RANKS)
            losses.append(loss[learnable[first]].double().sum())
            scored.append(learnable.sum())
            positions.append(present.sum())
            counted = functional.one_hot(rank, MAX_RANKS + 1) * present[first][:, None]
            hits.append(counted.sum(0)[:MAX_RANKS])
            ranks.append(torch.where(present[first], rank, IGNORE))
        counts = Evaluation(torch.stack(losses), torch.stack(scored), torch.stack(positions), torch.stack(hits))
        return counts, torch.stack(ranks, dim=1)

    def _ranks(self, output: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """(rank among the best MAX_RANKS, MAX_RANKS when worse, int64 [P]; cross-entropy [P]) of draft tokens `label`
        int64 [P] at places where `output` [P, H] left the layer; scored a chunk at a time.
        """
        ranks, losses = [label[:0]], [output.new_zeros(0)]
        for part, own in zip(output.split(CHUNK), label.split(CHUNK), strict=True):
            scores = self.model.scores(part)  # [C, Vd]
            score = scores.gather(1, own[:, None])
            ranks.append((scores > score).sum(1).clamp(max=MAX_RANKS))
            losses.append(scores.logsumexp(1) - score[:, 0])
        return torch.cat(ranks), torch.cat(losses)


def _mean_distance(batch: SequenceBatch, found: Tensor, wanted: Tensor) -> Tensor:
    """Smooth L1 of states [P, H], the mean over the batch; float32 scalar."""
    own = torch.tensor(len(found))
    share = len(found) / float(batch.counted(own))
    if not len(found):
        return found.new_zeros((), dtype=torch.float32)
    return share * functional.smooth_l1_loss(found.float(), wanted)


def attend_own(query: Tensor, blocks: list[KeyBlock]) -> Tensor:
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
    weights, committed = torch.softmax(torch.cat([square, own], dim=-1), dim=-1), square.shape[-1]
    mixed = weights[..., :committed] @ first.values[:, :, None]
    for place, block in enumerate(later):
        mixed = mixed + weights[..., committed + place, None] * block.values[:, :, None]
    return mixed.reshape(batch, heads, width, size)
