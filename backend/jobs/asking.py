"""What a measurement asks a target: a prompt's first question, where an answer fits behind it. Knows no drafter."""

from __future__ import annotations

from backend.data.prompts import Prompt
from backend.data.templates import encode_chat
from backend.errors import HeadwayError
from backend.targets.target import Target


def encode_first(target: Target, prompt: Prompt) -> list[int]:
    """Everything before the first answer through the target's template, with the row's tools. Later questions would
    need answers that are not there. Raises HeadwayError for text that this tokenizer can't take.
    """
    return encode_chat(target.tokenizer, prompt.question(0), tools=prompt.tools, special_tokens=prompt.special_tokens)


def first_question(target: Target, prompt: Prompt, room: int) -> list[int] | None:
    """The same as encode_first; None where that can't be, or leaves less than `room` tokens in the context."""
    try:
        ids = encode_first(target, prompt)
    except HeadwayError:
        return None
    return ids if len(ids) + room <= target.max_context else None
