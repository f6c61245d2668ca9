"""How much of an answer repeats itself: looping text is easy to draft, so a speed without this number can mislead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def repeated_share(tokens: Sequence[int], n: int = 8) -> float:
    """Share of tokens that lie inside an n-gram occurring at least twice in `tokens`; 0 for shorter sequences."""
    if len(tokens) < n:
        return 0.0
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    counts = Counter(grams)
    inside = [False] * len(tokens)
    for start, gram in enumerate(grams):
        if counts[gram] > 1:
            inside[start : start + n] = [True] * n
    return sum(inside) / len(tokens)
