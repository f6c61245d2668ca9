"""Which class a token of an answer has, and counts of drafts by class."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.analysis.token_classes import CLASSES, CONTENT, FORMAT, SPECIAL, class_counts, token_classes
from backend.decoding.records import StepTrace

LETTER = {SPECIAL: "S", FORMAT: "f", CONTENT: "c"}
END = 99


def shown(*pieces: str) -> str:
    """One letter a token; pieces in angle bars are special."""
    ids = [END if piece.startswith("<|") else number for number, piece in enumerate(pieces)]
    return "".join(LETTER[kind] for kind in token_classes(ids, pieces, {END}))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["The", " answer", ":", " ", "42", ".", "\n\n", "<|im_end|>"], "ccffcffS"),
        (['{"', "na", "me", '":', ' "', "name", '",', ' "age', '": ', "7", "}"], "fffffcfffcf"),
        (["<", "tool", "_call", ">", "x", "</", "tool", "_call", ">"], "ffffcffff"),
        (["a", " <", " b", ">"], "cfcf"),  # no tag: there is a blank
        (["```", "py", "thon", "\n", "x", "\n", "```"], "ffffcff"),
        (["1", ".", " one", "\n", "12", ")", " two", " 3", "."], "ffcfffccf"),
        (["<|im_start|>", "assis", "tant", "\n", "user"], "Sfffc"),
        (["<|im_start|>", "assis", "tant", " "], "Sccf"),  # nothing ends the line: no role
        (["é", "—", "…", "\ufffd"], "cffc"),
        ([], ""),
    ],
)
def test_classes(pieces: list[str], expected: str) -> None:
    assert shown(*pieces) == expected


def test_a_key_is_format_and_the_same_word_as_a_value_is_content() -> None:
    text = json.dumps({"city": "Paris", "country": {"name": "city"}})
    kinds = token_classes(range(len(text)), list(text), set())
    content = "".join(letter for letter, kind in zip(text, kinds, strict=True) if kind == CONTENT)
    assert content == "Pariscity"


@given(st.lists(st.text(max_size=4), max_size=12), st.sets(st.integers(0, 11)))
def test_every_token_has_a_class_and_special_is_by_id(pieces: list[str], special: set[int]) -> None:
    kinds = token_classes(range(len(pieces)), pieces, special)
    assert len(kinds) == len(pieces)
    assert all((kind == SPECIAL) == (place in special) for place, kind in enumerate(kinds))
    whole = [kind for kind, piece in zip(kinds, pieces, strict=True) if kind == CONTENT and not piece]
    assert not whole  # what writes nothing is no content


def step(tokens: int, accepted: int, tried: int) -> StepTrace:
    return StepTrace(0, 1, 4, accepted, tried, accepted + 1 - tokens, list(range(tokens)), "", 0, 0, 0, 0)


def test_counts_are_of_what_was_written_where_something_was_drafted() -> None:
    c, f, s = CONTENT, FORMAT, SPECIAL
    classes = [c, f, c, c, f, c, c, f, s]  # the first came out of the prompt
    steps = [
        step(3, 2, 3),  # f c accepted, then c tried and missed
        step(1, 0, 1),  # f missed
        step(2, 1, 1),  # c accepted; c written where nothing was drafted
        step(2, 3, 4),  # f s accepted; the end cut the rest
    ]
    found = class_counts(steps, classes)
    assert dict(zip(CLASSES, found.tried, strict=True)) == {"special": 1, "format": 3, "content": 3}
    assert dict(zip(CLASSES, found.accepted, strict=True)) == {"special": 1, "format": 2, "content": 2}
