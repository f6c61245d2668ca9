"""Shared word sequences between prompts and evaluation sets, so that nothing is trained on what it is judged by.

Compares words only: lower case, punctuation as blanks. Knows no tokenizer and no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.data.prompts import Prompt

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Overlap:
    """A run of words that a prompt shares with a row of another file."""

    question_id: str
    other_file: str
    other_id: str
    words: str


def ngrams(text: str, n: int = 8) -> set[tuple[str, ...]]:
    """All runs of `n` words. A shorter text gives itself as its only run, so that short questions match when equal.

    Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    words = _WORD.findall(text.lower())
    if not words:
        return set()
    return {tuple(words[start : start + n]) for start in range(max(1, len(words) - n + 1))}


def find_overlap(prompts: Sequence[Prompt], others: Mapping[str, Sequence[Prompt]], n: int = 8) -> list[Overlap]:
    """One hit for every prompt and every row (`others` maps a file name to its prompts) that share a run of `n` words.

    Only the user's turns are compared; the first shared run in alphabetical order is reported.
    """
    index: dict[tuple[str, ...], set[tuple[str, str]]] = {}
    for file, rows in others.items():
        for row in rows:
            for gram in _grams(row, n):
                index.setdefault(gram, set()).add((file, row.question_id))
    hits = []
    for prompt in prompts:
        shared: dict[tuple[str, str], tuple[str, ...]] = {}
        for gram in sorted(_grams(prompt, n) & index.keys()):
            for place in index[gram]:
                shared.setdefault(place, gram)
        hits += [Overlap(prompt.question_id, *place, " ".join(gram)) for place, gram in sorted(shared.items())]
    return hits


def _grams(prompt: Prompt, n: int) -> set[tuple[str, ...]]:
    return set().union(*(ngrams(turn, n) for turn in prompt.turns))
