"""Which answers are held out. By the prompt's own hash, so a prompt never stands on both sides and new answers move no
old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT", bound=Any)


def split_held_out(answers: Sequence[AnswerT], fraction: float) -> tuple[list[AnswerT], list[AnswerT]]:
    """(training, held out); about `fraction` of the prompts are held out.

    All answers of a conversation stand where its first prompt's hash puts them, at whatever temperature and turn.

    Among few prompts chance may hold out none; then, where there are two or more, the one of the lowest hash is, so
    that there is something to measure on.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be in [0, 1); got {fraction}")
    first = {answer.question_id: answer.place() for answer in answers if answer.turn == 0}
    places = [first.get(answer.question_id, answer.place()) for answer in answers]
    border = fraction
    if fraction > 0 and len(set(places)) > 1 and min(places) >= fraction:
        border = sorted(set(places))[1]
    train = [answer for answer, place in zip(answers, places, strict=True) if place >= border]
    held = [answer for answer, place in zip(answers, places, strict=True) if place < border]
    return train, held
