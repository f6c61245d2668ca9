"""Greedy: a drafted token is accepted when it is the target's best token at its parent. Exact for T = 0.

It draws nothing and knows no draft probabilities.
"""

from __future__ import annotations

from torch import Tensor

from backend.acceptance.result import Acceptance
from backend.acceptance.walk import TargetRows, follow


def verify_greedy(rows: TargetRows) -> Acceptance:
    """Accept argmax after argmax. Score: the node's processed logit at its parent; threshold: the best logit there.

    The tokens are what is compared: of two tokens with equal logits the one with the smaller id is the best.
    """
    return follow(rows, _best)


def _best(logits: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    return logits.argmax(-1), logits
