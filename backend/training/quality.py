"""What a changed target has lost against the original, counted on the original's own held-out answers.

Knows two targets and token ids. Counts leave here; ratios are made when they are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import torch

from backend.errors import Cancelled
from backend.targets.target import Target
from backend.training.features import TokenizedAnswer

CHUNK = 256  #: positions that both score at once


@dataclass(frozen=True)
class QualityLoss:
    """Sums over `tokens` answer tokens.

    kl_sum: KL divergence of the changed target's distribution from the original's, in nats; original_nll and
    changed_nll: minus log-probability of the answers; agreed: places where both have the same best token.
    """

    tokens: int
    kl_sum: float
    original_nll: float
    changed_nll: float
    agreed: int

    def as_numbers(self) -> dict[str, Any]:
        """The counts, and per token: divergence, perplexities, share of equal best tokens."""
        count = max(1, self.tokens)
        return {
            "tokens": self.tokens,
            "kl_per_token": round(self.kl_sum / count, 6),
            "original_perplexity": round(exp(self.original_nll / count), 4),
            "changed_perplexity": round(exp(self.changed_nll / count), 4),
            "same_best_token": round(self.agreed / count, 4),
        }


@torch.inference_mode()
def quality_loss(
    original: Target,
    changed: Target,
    answers: Sequence[TokenizedAnswer],
    should_stop: Callable[[], bool] = lambda: False,
) -> QualityLoss:
    """Score every answer's tokens with both. Raises Cancelled when asked to stop."""
    total = QualityLoss(0, 0.0, 0.0, 0.0, 0)
    for answer in answers:
        if should_stop():
            raise Cancelled("Measuring the loss of quality was stopped; resume the job to go on.")
        text = [*answer.prompt_ids, *answer.answer_ids]
        if not answer.prompt_ids or not answer.answer_ids or len(text) > original.max_context:
            continue
        ids = torch.tensor([text], device=original.device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        first = len(answer.prompt_ids) - 1
        states = [target.hidden_states(ids, mask)[0, first:-1] for target in (original, changed)]
        for start in range(0, len(answer.answer_ids), CHUNK):
            here = slice(start, start + CHUNK)
            labels = torch.tensor(answer.answer_ids[here], device=ids.device)[:, None]
            log_p, log_q = (
                torch.log_softmax(target.logits(state[here]).double(), dim=-1)
                for target, state in zip((original, changed), states, strict=True)
            )
            total = QualityLoss(
                total.tokens + len(labels),
                total.kl_sum + float((log_p.exp() * (log_p - log_q)).sum()),
                total.original_nll - float(log_p.gather(1, labels).sum()),
                total.changed_nll - float(log_q.gather(1, labels).sum()),
                total.agreed + int((log_p.argmax(1) == log_q.argmax(1)).sum()),
            )
    return total
