"""Which target tokens the heads may draft: the most frequent ones in the target's own answers. Knows no weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from backend.analysis.draft_vocab import token_order
from backend.errors import HeadwayError
from backend.training.features import TokenizedAnswer


def choose_tokens(
    answers: Iterable[TokenizedAnswer], vocab_size: int, size: int, always: Iterable[int] = ()
) -> tuple[Tensor, float]:
    """The `size` target tokens to draft.

    The first of their order (see analysis/draft_vocab.py), in ascending order; the same input gives the same map.

    Returns (int64 [size], share of the answers' tokens that are in the map). Raises HeadwayError for a size outside
    1..vocab_size.
    """
    if not 1 <= size <= vocab_size:
        raise HeadwayError(f"The draft vocabulary must have 1 to {vocab_size} tokens; {size} were asked for.")
    given = list(answers)
    chosen = sorted(token_order(given, vocab_size, always)[:size])
    known = set(chosen)
    total = sum(len(answer.answer_ids) for answer in given)
    covered = sum(token in known for answer in given for token in answer.answer_ids)
    return torch.tensor(chosen, dtype=torch.int64), covered / max(1, total)
