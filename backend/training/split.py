"""Which answers are held out. By the prompt's own hash, so a prompt never stands on both sides and new answers move no
old ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT", bound=Any)


def split_held_out(answers: Sequence[AnswerT], fraction: float) -> tuple[list[AnswerT], list[AnswerT]]:
    """(training, held out); about `fraction` of the prompts are held out. Answers need `prompt_ids`."""
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be in [0, 1); got {fraction}")
    train: list[AnswerT] = []
    held: list[AnswerT] = []
    for answer in answers:
        digest = hashlib.sha256(json.dumps(list(answer.prompt_ids)).encode()).digest()
        (held if int.from_bytes(digest[:8]) < fraction * 2**64 else train).append(answer)
    return train, held
