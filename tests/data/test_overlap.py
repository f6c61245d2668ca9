"""Shared runs of words, against a slow twin."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.data.overlap import Overlap, find_overlap, ngrams
from backend.data.prompts import Prompt

WORDS = st.lists(st.sampled_from("abc"), max_size=12)


def prompt(name: str, *turns: str) -> Prompt:
    return Prompt(name, "x", turns)


def test_case_and_punctuation_do_not_matter() -> None:
    assert ngrams("One, two: THREE-four_five", 3) == {
        ("one", "two", "three"), ("two", "three", "four"), ("three", "four", "five")}
    assert ngrams("Who am I?", 8) == {("who", "am", "i")} and ngrams("?!", 8) == set()
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        ngrams("a", 0)


def test_hits_name_both_sides() -> None:
    mine = [prompt("p1", "nothing shared", "x one two three"), prompt("p2", "who am i")]
    first = [prompt("e1", "zero ONE two three four"), prompt("e2", "Who am I?")]
    others = {"e.jsonl": first, "f": [prompt("f1", "y z")]}
    assert find_overlap(mine, others, n=3) == [
        Overlap("p1", "e.jsonl", "e1", "one two three"), Overlap("p2", "e.jsonl", "e2", "who am i")]
    assert find_overlap(mine, others, n=8) == [Overlap("p2", "e.jsonl", "e2", "who am i")]


@given(WORDS, WORDS, st.integers(1, 5))
@settings(deadline=None)
def test_equals_the_slow_way(left: list[str], right: list[str], n: int) -> None:
    def runs(words: list[str]) -> list[list[str]]:
        return [words[i : i + n] for i in range(len(words) - n + 1)] or ([words] if words else [])

    expected = any(run == other for run in runs(left) for other in runs(right))
    hits = find_overlap([prompt("l", " ".join(left))], {"f": [prompt("r", " ".join(right))]}, n)
    assert bool(hits) == expected
