"""Which target tokens the heads may draft: the most frequent ones in the target's own answers. Knows no weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from backend.errors import HeadwayError
from backend.training.features import TokenizedAnswer


def choose_tokens(
    answers: Iterable[TokenizedAnswer], vocab_size: int, size: int, always: Iterable[int] = ()
) -> tuple[Tensor, float]:
    """The `size` target tokens to draft.

    First `always` (end tokens, say), then by frequency in the answers, then by frequency in the prompts, then by token
    number (byte- pair vocabularies are numbered by how early a token was merged, so low numbers are the commoner ones).
    The same input gives the same map, in ascending order.

    Returns (int64 [size], share of the answers' tokens that are in the map). Raises HeadwayError for a size outside
    1..vocab_size.
    """
    if not 1 <= size <= vocab_size:
        raise HeadwayError(f"The draft vocabulary must have 1 to {vocab_size} tokens; {size} were asked for.")
    in_answers: Counter[int] = Counter()
    in_prompts: Counter[int] = Counter()
    for answer in answers:
        in_answers.update(answer.answer_ids)
        in_prompts.update(answer.prompt_ids)
    forced = set(always)
    order = sorted(range(vocab_size), key=lambda t: (t not in forced, -in_answers[t], -in_prompts[t], t))
    chosen = sorted(order[:size])
    covered = sum(in_answers[token] for token in chosen)
    return torch.tensor(chosen, dtype=torch.int64), covered / max(1, in_answers.total())
