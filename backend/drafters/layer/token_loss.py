"""How a drafter's tokens are held against the target's, by name, without keeping either's scores.

Teacher and drafter score thousands of tokens at every position; a chunk of positions is scored by both, turned into the
drafter's gradient in place, multiplied back, and dropped. With p the target's distribution over the draft vocabulary
and q the drafter's:

    soft       cross-entropy of q under p; kl: the same less p's own entropy, so that 0 is the best, with equal gradient
    hard       cross-entropy of the token that the answer has
    lk         -log of the acceptance probability, the sum of min(p, q)
    lk-hybrid  w KL(p|q) + (1 - w) (1 - sum of min(p, q)), w = exp(-3 sum of min(p, q)) taken as a constant: far from
               the target it pulls as kl does, near it only acceptance counts

Knows no family. The obvious versions are torch's own functions on whole products; the tests compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from backend.drafters.learning import products_in
from backend.targets.target import Target

CHUNK = 512  #: positions scored at once
LEAST = 1e-8  #: acceptance below this counts as this
FAR = 3.0  #: how fast the hybrid's weight falls with acceptance

Scored = tuple[Tensor, Tensor]  # loss of each position [C], and its gradient by the drafter's scores [C, Vd]


@dataclass(frozen=True)
class Teacher:
    """The target's output head: rows float [Vd, Ht] of the tokens that can be drafted, scale and soft-cap folded in or
    named. Its distribution is renormalised over these tokens.
    """

    rows: Tensor
    cap: float | None = None

    @classmethod
    def of(cls, target: Target, tokens: Tensor) -> Teacher:
        """Of a target, for draft tokens int64 [Vd]."""
        config = target.config
        scale = float(getattr(config, "logit_scale", None) or 1.0) / float(
            getattr(config, "logits_scaling", None) or 1.0
        )
        rows = target.lm_head_weight().detach()[tokens.to(target.device)].float() * scale
        return cls(rows, getattr(config, "final_logit_softcapping", None))

    def of_rows(self, head: Tensor, tokens: Tensor) -> Teacher:
        """The same with other rows: head float [V, Ht], scaled already, of which those of draft tokens int64 [Vd]."""
        return replace(self, rows=head.detach()[tokens].float())

    def log_probs(self, states: Tensor, rows: Tensor) -> Tensor:
        """states [C, Ht] and these rows, in whatever dtype -> float32 [C, Vd]."""
        scores = (states @ rows.T).float()
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)
        return torch.log_softmax(scores, dim=1)


def _soft(log_q: Tensor, log_p: Tensor, labels: Tensor) -> Scored:
    p = log_p.exp()
    return -(p * log_q).sum(1), log_q.exp() - p


def _kl(log_q: Tensor, log_p: Tensor, labels: Tensor) -> Scored:
    p = log_p.exp()
    return (p * (log_p - log_q)).sum(1), log_q.exp() - p


def _hard(log_q: Tensor, log_p: Tensor, labels: Tensor) -> Scored:
    own = labels.clamp(min=0)[:, None]
    slope = log_q.exp()
    slope.scatter_add_(1, own, -torch.ones_like(slope[:, :1]))
    return -log_q.gather(1, own)[:, 0], slope


def _acceptance(log_q: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    """(sum of min(p, q) [C], its gradient by the drafter's scores [C, Vd])."""
    q, p = log_q.exp(), log_p.exp()
    below = (q < p).to(q.dtype)
    slope = q * (below - (q * below).sum(1, keepdim=True))
    return torch.minimum(p, q).sum(1).clamp(min=LEAST), slope


def _lk(log_q: Tensor, log_p: Tensor, labels: Tensor) -> Scored:
    accepted, slope = _acceptance(log_q, log_p)
    return -accepted.log(), -slope / accepted[:, None]


def _lk_hybrid(log_q: Tensor, log_p: Tensor, labels: Tensor) -> Scored:
    accepted, slope = _acceptance(log_q, log_p)
    distance, pull = _kl(log_q, log_p, labels)
    weight = torch.exp(-FAR * accepted)
    return weight * distance + (1 - weight) * (1 - accepted), weight[:, None] * pull - (1 - weight)[:, None] * slope


LOSSES: Final[Mapping[str, Callable[[Tensor, Tensor, Tensor], Scored]]] = {
    "soft": _soft,
    "hard": _hard,
    "kl": _kl,
    "lk": _lk,
    "lk-hybrid": _lk_hybrid,
}


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        output: Tensor,
        taught: Tensor,
        labels: Tensor,
        weight: Tensor,
        teacher: Teacher,
        name: str,
        compute: torch.dtype,
    ) -> Tensor:
        loss = weight.new_zeros(())
        grad_states = torch.empty_like(states)
        grad_output = torch.zeros_like(output) if output.requires_grad else None
        matrix, teacher_matrix = output.to(compute), teacher.rows.to(compute)
        for start in range(0, len(states), CHUNK):
            here = slice(start, start + CHUNK)
            rows = states[here].to(compute)
            log_q = torch.log_softmax((rows @ matrix.T).float(), dim=1)  # [C, Vd]
            log_p = log_q if name == "hard" else teacher.log_probs(taught[here].to(compute), teacher_matrix)
            each, slope = LOSSES[name](log_q, log_p, labels[here])
            loss += (each * weight[here]).sum()
            slope = slope.mul_(weight[here, None]).to(compute)
            grad_states[here] = slope @ matrix
            if grad_output is not None:
                grad_output += slope.T @ rows
        ctx.save_for_backward(grad_states, grad_output)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_output = ctx.saved_tensors
        factor = grads[0]
        by_output = None if grad_output is None else grad_output * factor
        return grad_states * factor, by_output, None, None, None, None, None, None


def token_loss(
    name: str,
    states: Tensor,
    output: Tensor,
    taught: Tensor,
    labels: Tensor,
    weight: Tensor,
    teacher: Teacher,
    compute: torch.dtype = torch.float32,
) -> Tensor:
    """Sum over positions of weight[t] * the loss called `name` (see above), float32 scalar.

    Args:
        states: float [T, H], the drafter's; output: float [Vd, H], its output rows.
        taught: float [T, Ht], the target's last hidden states that say what follows.
        labels: int64 [T], draft tokens that the answer has; only `hard` looks at them.
        weight: float32 [T], 0 where nothing is to be learned.
        compute: dtype of the products; bfloat16 is faster where the hardware has it. Under autocast its own.
    """
    compute = products_in(compute, states.device)
    with torch.autocast(states.device.type, enabled=False):  # every product below says itself what it is in
        result: Tensor = _TokenLoss.apply(states, output, taught, labels, weight, teacher, name, compute)  # type: ignore[no-untyped-call]
    return result
