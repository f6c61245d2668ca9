"""Streamed text: whole characters only, stop strings held back, and in the end what the tokenizer says of all of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.decoding.text import BROKEN, TextStream
from backend.targets.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()  # one token a byte: every character but ASCII is split


class SpacedWords:
    """A tokenizer that leaves out the space before the first token of whatever it decodes, as sentencepiece does."""

    def decode(self, tokens: list[int], **_: Any) -> str:
        return " ".join(f"w{token}" for token in tokens)


class BytesOneByOne:
    """A tokenizer that shows every byte of an unfinished character as one broken character."""

    def decode(self, tokens: list[int], **_: Any) -> str:
        text, pending = "", b""
        for token in tokens:
            pending += bytes([token])
            try:
                text, pending = text + pending.decode(), b""
            except UnicodeDecodeError:
                continue
        return text + BROKEN * len(pending)


def stream(tokens: bytes | list[int], stop: tuple[str, ...] = (), tokenizer: Any = TOKENIZER) -> tuple[list[str], str]:
    text, pieces = TextStream(tokenizer, stop), []
    for token in tokens:
        stopped = text.push(token)
        pieces.append(text.take())
        if stopped:
            break
    pieces.append(text.finish())
    return pieces, text.text


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=20))
def test_no_piece_is_ever_broken(text: str) -> None:
    pieces, whole = stream(text.encode())
    assert "".join(pieces) == whole == text
    if BROKEN not in text:
        assert all(BROKEN not in piece for piece in pieces)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 259), max_size=30))
def test_any_tokens_give_what_the_tokenizer_says_of_all_of_them(tokens: list[int]) -> None:
    pieces, whole = stream(tokens)
    assert "".join(pieces) == whole == TOKENIZER.decode(tokens, skip_special_tokens=True)


def test_an_emoji_appears_with_its_last_byte() -> None:
    assert stream("a🙂b".encode())[0] == ["a", "", "", "", "🙂", "b", ""]
    assert stream("🙂".encode(), tokenizer=BytesOneByOne())[0] == ["", "", "", "🙂", ""]


def test_a_character_after_many_broken_bytes_is_whole() -> None:
    for broken in range(12):
        pieces, _ = stream(b"\xff" * broken + "🙂é".encode())
        assert "".join(pieces) == BROKEN * broken + "🙂é"


def test_what_never_becomes_a_character_is_shown_broken_at_the_end() -> None:
    pieces, whole = stream("né".encode()[:-1])
    assert pieces == ["n", "", BROKEN] and whole == "n" + BROKEN


def test_spaces_between_tokens_survive() -> None:
    assert stream([1, 2, 3], tokenizer=SpacedWords())[0] == ["w1", " w2", " w3", ""]


@pytest.mark.parametrize(
    ("text", "stop", "shown"),
    [
        ("one END two", ("END",), "one "),
        ("aab", ("ab",), "a"),  # the first a only looked like the beginning
        ("xEN", ("END",), "xEN"),  # a beginning that was none comes out in the end
        ("abc", ("c", "bc"), "a"),  # the one that begins first
        ("abc", ("",), "abc"),  # an empty stop string stops nothing
        ("né!", ("é",), "n"),
        ("stop", ("stop",), ""),
        ("a🙂b🙂🙂c", ("🙂🙂",), "a🙂b"),
    ],
)
def test_stop_strings(text: str, stop: tuple[str, ...], shown: str) -> None:
    pieces, whole = stream(text.encode(), stop)
    assert "".join(pieces) == whole == shown


@settings(deadline=None, max_examples=100)
@given(st.text("abé", max_size=12), st.lists(st.text("abé", min_size=1, max_size=3), max_size=2))
def test_nothing_of_a_stop_string_is_ever_shown(text: str, stop: list[str]) -> None:
    places = [text.find(s) + len(s) for s in stop if s in text]
    read = text[: min(places)] if places else text  # what was read when the first stop string was complete
    begins = [read.find(s) for s in stop if s in read]
    expected = read[: min(begins)] if begins else text
    pieces, whole = stream(text.encode(), tuple(stop))
    assert "".join(pieces) == whole == expected
    shown = ""
    for piece in pieces:
        shown += piece
        assert expected.startswith(shown)
