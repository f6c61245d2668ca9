"""Special, format or content: what kind of token each token of an answer is, and how many of each were drafted right.

The class is that of the token that was *written*, not of what was guessed: so it depends on the text alone, is the same
for every drafter and tree, and needs nothing that a step does not copy to the host anyway. Knows text and numbers; no
target, and of a tokenizer only its special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from backend.decoding.records import StepTrace

CLASSES: Final = ("special", "format", "content")
SPECIAL, FORMAT, CONTENT = range(len(CLASSES))

_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*"(?=\s*:)')  # a JSON key; in prose a quotation before a colon is as good as one
_TAG = re.compile(r"</?[A-Za-z][\w.:-]*>")  # <tool_call>, </think>
_FENCE = re.compile(r"^\s*(?:```|~~~)[\w+-]*", re.MULTILINE)  # ``` and the language behind it
_ROLE = re.compile(r"\w+(?=\n)")  # the word that a template writes behind a special token, such as assistant
_LISTED = re.compile(r"^\s*\d{1,3}[.)](?=\s)", re.MULTILINE)  # the number of an item
_PATTERNS: Final = (_KEY, _TAG, _FENCE, _LISTED)


@dataclass(frozen=True)
class ClassCounts:
    """By class, in the order of CLASSES: tokens of an answer written where something had been drafted, and those of
    them that were a drafted token accepted. What an answer's end cut off does not count.
    """

    tried: tuple[int, ...]
    accepted: tuple[int, ...]

    def to_dict(self) -> dict[str, dict[str, int]]:
        """For JSON, classes by name."""
        return {
            "tried_by_class": dict(zip(CLASSES, self.tried, strict=True)),
            "accepted_by_class": dict(zip(CLASSES, self.accepted, strict=True)),
        }


def token_classes(tokens: Sequence[int], pieces: Sequence[str], special: Collection[int]) -> list[int]:
    """The class of each token of one answer; `pieces` are the tokens' texts, `special` the ids of special tokens.

    special: the tokenizer's special tokens, such as the end of a turn or of a tool call.
    format: what has no letter or digit (brackets, punctuation, quotes, white space), keys of JSON objects, the names of
    tags, the language of a code fence, the number of a list's item, and the word that a template writes behind a
    special token. A token that is only partly such text is content.
    content: everything else.
    """
    text, starts = "", []
    for piece in pieces:
        starts.append(len(text))
        text += piece
    shaped = bytearray(len(text))  # 1 where a character belongs to the format
    for pattern in _PATTERNS:
        for found in pattern.finditer(text):
            shaped[found.start() : found.end()] = b"\1" * (found.end() - found.start())
    for token, piece, start in zip(tokens, pieces, starts, strict=True):
        if token in special and (role := _ROLE.match(text, start + len(piece))):
            shaped[role.start() : role.end()] = b"\1" * (role.end() - role.start())
    return [
        SPECIAL if token in special else _class(piece, shaped[start : start + len(piece)])
        for token, piece, start in zip(tokens, pieces, starts, strict=True)
    ]


def _class(piece: str, shaped: bytearray) -> int:
    says = (letter.isalnum() or letter == "\ufffd" for letter in piece)  # U+FFFD: a part of a character
    return CONTENT if any(word and not mark for word, mark in zip(says, shaped, strict=True)) else FORMAT


Classify = Callable[[Sequence[int]], list[int]]


def classifier(tokenizer: Any) -> Classify:
    """`token_classes` of answers in this tokenizer's tokens."""
    from backend.decoding.rows import piece_of  # this file stays free of torch until answers are there

    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    special |= set(tokenizer.all_special_ids)
    piece = lru_cache(maxsize=65536)(lambda token: piece_of(tokenizer, token))
    return lambda tokens: token_classes(tokens, [piece(token) for token in tokens], special)


def class_counts(steps: Sequence[StepTrace], classes: Sequence[int]) -> ClassCounts:
    """Of one answer: its steps in order and the class of each of its tokens. The first token belongs to no step.

    The token behind the accepted ones counts as tried where a child had been drafted in its place.
    """
    tried, accepted, place = [0] * len(CLASSES), [0] * len(CLASSES), 1
    for step in steps:
        for depth, kind in enumerate(classes[place : place + min(step.num_tried, len(step.tokens))]):
            tried[kind] += 1
            accepted[kind] += depth < step.num_accepted
        place += len(step.tokens)
    return ClassCounts(tuple(tried), tuple(accepted))
