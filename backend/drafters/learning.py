"""What training asks of a family: a batch of positions in, a loss or counts out.

The loop (training/loop.py) knows no family and the families know no loop; both know this file. Counts, never ratios,
leave here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

IGNORE: Final = -100  #: label of a position that has none
MAX_RANKS: Final = 10  #: ranks counted apart in evaluation


def products_in(compute: torch.dtype, device: torch.device) -> torch.dtype:
    """In which numbers a loss with a gradient of its own multiplies: autocast's where it is on, else `compute`."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else compute


Total = Callable[[Tensor], Tensor]


def counted(own: Tensor, total: Total | None) -> Tensor:
    """What a mean over a batch divides by, at least 1: the positions `own` that count, int64 of any shape.

    A batch may be one of P parts that other processes hold, whose gradients are averaged. `total` then gives the
    positions of all parts, divided by P, so that the average of the parts' means is the mean over the whole.
    """
    return own.clamp(min=1) if total is None else total(own)


@dataclass(frozen=True)
class FeatureBatch:
    """T positions of answers, each with the target's state there and the tokens that followed.

    Args:
        hidden: float [T, H], the target's last hidden state after its final norm at position t.
        following: int64 [T, F], the tokens t + 1, t + 2, ..., t + F; IGNORE past the end of the answer.
        ahead: float [T, F - 1, H], the states at t + 1, ..., t + F - 1, garbage past the end of the answer: what the
            target says of the tokens t + 2, ..., t + F. None for learners that don't ask for it.
        total: of a part of a batch, see `counted`.
    """

    hidden: Tensor
    following: Tensor
    ahead: Tensor | None = None
    total: Total | None = None

    def to(self, device: torch.device) -> FeatureBatch:
        ahead = None if self.ahead is None else self.ahead.to(device)
        return FeatureBatch(self.hidden.to(device), self.following.to(device), ahead, self.total)

    def counted(self, own: Tensor) -> Tensor:
        """What a mean over the batch divides by, where `own` positions of this part count; see `counted`."""
        return counted(own, self.total)

    def unlearned(self) -> FeatureBatch:
        """The same with nothing to be learned."""
        return replace(self, following=torch.full_like(self.following, IGNORE))


@dataclass(frozen=True)
class SequenceBatch:
    """B texts, padded on the right to T tokens, each with the target's states at all of them.

    Args:
        tokens: int64 [B, T].
        states: float [B, T, F], of the layers the model reads.
        final: float [B, T, Ht], last hidden state after the final norm: the one that predicts the next token.
        learn: bool [B, T], tokens of an answer, those to be predicted.
        total: of a part of a batch, see `counted`.
    """

    tokens: Tensor
    states: Tensor
    final: Tensor
    learn: Tensor
    total: Total | None = None

    def to(self, device: torch.device) -> SequenceBatch:
        tokens, states, final, learn = (v.to(device) for v in (self.tokens, self.states, self.final, self.learn))
        return SequenceBatch(tokens, states, final, learn, self.total)

    def counted(self, own: Tensor) -> Tensor:
        """What a mean over the batch divides by, where `own` positions of this part count; see `counted`."""
        return counted(own, self.total)

    def unlearned(self) -> SequenceBatch:
        """The same with nothing to be learned."""
        return replace(self, learn=torch.zeros_like(self.learn))


@dataclass(frozen=True)
class Evaluation:
    """What K heads did on held-out positions; add two to join them.

    Args:
        loss_sum: float64 [K], summed cross-entropy over the positions counted in `scored`.
        scored: int64 [K], positions whose label the head can draft.
        positions: int64 [K], positions that have a label; those the head can't draft count as misses in `hits`.
        hits: int64 [K, MAX_RANKS], positions whose label had exactly this rank among the head's candidates.
    """

    loss_sum: Tensor
    scored: Tensor
    positions: Tensor
    hits: Tensor

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.loss_sum + other.loss_sum,
            self.scored + other.scored,
            self.positions + other.positions,
            self.hits + other.hits,
        )

    def hit_rates(self) -> list[list[float]]:
        """Rate of each (head, rank); what tree search takes."""
        rates = self.hits.double() / self.positions.clamp(min=1)[:, None]
        return rates.tolist()

    def as_metrics(self) -> dict[str, float]:
        """Per head: mean loss, and how often the label was among the best 1 to 5 candidates."""
        losses = (self.loss_sum / self.scored.clamp(min=1)).tolist()
        within = (self.hits.cumsum(dim=1) / self.positions.clamp(min=1)[:, None]).tolist()
        metrics = {}
        for head, loss in enumerate(losses):
            metrics[f"loss_{head}"] = loss
            metrics |= {f"top{k}_{head}": within[head][k - 1] for k in range(1, 6)}
        return metrics


def acceptance_of_ranks(ranks: Tensor) -> dict[str, float]:
    """How a chain of best guesses would do at held-out positions, by depth from 0.

    Args:
        ranks: int64 [T, K], see `Learner.evaluate`.

    Returns `accept_marginal_D`: part of the positions where the best guesses of depth D and all before it are right;
    `accept_conditional_D`: the same among the positions where those before it are. What has no positions is left out.
    """
    metrics: dict[str, float] = {}
    right_before = torch.ones(len(ranks), dtype=torch.bool, device=ranks.device)
    for depth, column in enumerate(ranks.unbind(1)):
        labelled = column != IGNORE
        right = right_before & (column == 0)
        positions, reached, hits = (int(where.sum()) for where in (labelled, labelled & right_before, right))
        if positions:
            metrics[f"accept_marginal_{depth}"] = hits / positions
        if reached:
            metrics[f"accept_conditional_{depth}"] = hits / reached
        right_before = right
    return metrics


class Learner(Protocol):
    """One family's trainable part."""

    family: str

    @property
    def model(self) -> nn.Module:
        """What is optimised; its state_dict is what checkpoints keep."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """What of the family decides a step; a run resumes only under the same ones."""
        ...

    @property
    def horizon(self) -> int:
        """F: how many following tokens a batch must carry."""
        ...

    @property
    def reads(self) -> tuple[int, ...]:
        """The target's layers whose states it needs at every token of whole texts, so that it is given
        `SequenceBatch`es; empty for learners that are given `FeatureBatch`es, single positions of answers.
        """
        ...

    @property
    def wants_ahead(self) -> bool:
        """Whether a `FeatureBatch` must hold the states at the following positions."""
        ...

    def share(self, embedding: Tensor, head: Tensor) -> None:
        """From now on use these weights of a target that learns beside the drafter wherever the target's were held:
        its input embedding [V, H] and the rows of its output head [V, H], scaled as its logits are. Gradients of `loss`
        flow into both where the drafter reads or scores with them; as a teacher the head stays constant.
        """
        ...

    def loss(self, batch: Any) -> tuple[Tensor, Tensor]:
        """(what is minimised, float scalar; each head's mean loss, detached [K])."""
        ...

    def evaluate(self, batch: Any) -> tuple[Evaluation, Tensor]:
        """Counts, and the rank of each label int64 [T, K]: MAX_RANKS when worse or not draftable, IGNORE without a
        label.
        """
        ...
