"""What a measurement asks a target: a prompt's first question, where an answer fits behind it. Knows no drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Question:
    """A prompt that fits, as token ids; `number` is its place among all prompts and decides its chance."""

    number: int
    prompt: Prompt
    ids: list[int]

    def key(self, part: str) -> str:
        """The name of the item that has its answer in this part of the work: the same in every attempt."""
        return f"{part}|{self.number}"


def questions_that_fit(
    target: Target, prompts: Sequence[Prompt], room: int, context: int | None = None
) -> list[Question]:
    """The prompts that leave `room` tokens for an answer in `context` tokens (default: all that the target has).

    Raises HeadwayError when none does.
    """
    beyond = target.max_context - min(target.max_context, context or target.max_context)
    asked = [(number, prompt, first_question(target, prompt, room + beyond)) for number, prompt in enumerate(prompts)]
    found = [Question(number, prompt, ids) for number, prompt, ids in asked if ids is not None]
    if not found:
        raise HeadwayError(
            f"None of the {len(prompts)} prompts leaves room for {room} more tokens in the context of {target.name}; "
            "ask for shorter answers or take other prompts."
        )
    return found
