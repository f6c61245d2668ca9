"""One row's bookkeeping: counts, cuts at end tokens, stop strings and the limit."""

from __future__ import annotations

import pytest

from backend.decoding.rows import Row, StepNumbers, piece_of
from backend.decoding.text import TextStream
from backend.targets.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
EOS = 258


def row_of(limit: int = 20, stop: tuple[str, ...] = (), first: int = 65) -> Row:
    row = Row(3, 7, limit, frozenset({EOS}), TextStream(TOKENIZER, stop))
    row.prefilled(first, 2.0)
    return row


def step(row: Row, tokens: list[int], drafted: int = 6, tried: int | None = None):
    tried = len(tokens) - 1 if tried is None else tried
    return row.stepped(StepNumbers(tokens, drafted, tried, None, None), [1.0, 4.0, 0.5], 6.0)


def identity(row: Row) -> bool:
    result = row.result()
    return len(result.tokens) == 1 + result.num_steps + result.num_accepted - result.num_cut


def test_counts_add_up() -> None:
    row = row_of()
    traces = [step(row, [66, 67, 68], tried=3), step(row, [69], drafted=0), step(row, [70, 71], tried=2)]
    assert [trace.num_accepted for trace in traces] == [2, 0, 1]
    assert [trace.step for trace in traces] == [1, 2, 3] and all(trace.row == 3 for trace in traces)
    result = row.result()
    assert result.tokens == list(range(65, 72)) and result.text == "ABCDEFG" and identity(row)
    assert (result.num_steps, result.num_drafted, result.num_accepted, result.num_cut) == (3, 12, 3, 0)
    assert result.accepted_per_depth == [2, 1, 0]  # steps that accepted depth 1, 2, 3
    assert result.drafted_per_depth == [2, 2, 1]  # and that drafted a child there under what was accepted
    assert result.acceptance_length == 2.0 and result.finish_reason == "cancelled"
    assert (result.draft_ms, result.verify_ms, result.commit_ms, result.overhead_ms) == (3.0, 12.0, 1.5, 1.5)
    assert result.decode_ms == 18.0 and result.tokens_per_s == pytest.approx(6 / 0.018)
    assert result.end_to_end_tokens_per_s == pytest.approx(7 / 0.020)


@pytest.mark.parametrize(
    ("tokens", "kept", "reason"),
    [
        ([66, EOS, 67, 68], [66, EOS], "eos"),
        ([66, 67, EOS], [66, 67, EOS], "eos"),
        ([66, 67, 68, 69, 70], [66, 67, 68, 69], "length"),
        ([66, 67, 68, EOS], [66, 67, 68, EOS], "eos"),  # an end token at the limit is an end token
        ([66, ord("!"), ord("?"), 70], [66, ord("!"), ord("?")], "stop"),
    ],
)
def test_cuts(tokens: list[int], kept: list[int], reason: str) -> None:
    row = row_of(limit=5, stop=("!?",))
    trace = step(row, tokens)
    assert trace.tokens == kept and trace.num_cut == len(tokens) - len(kept)
    assert trace.num_accepted == len(tokens) - 1  # what the rule accepted, before the cut
    assert row.finish_reason == reason and row.result().finish_reason == reason and identity(row)
    assert row.result().tokens == [65, *kept]


def test_the_first_token_may_already_be_the_end() -> None:
    assert row_of(first=EOS).result().finish_reason == "eos"
    assert row_of(limit=1).result().finish_reason == "length"
    row = row_of(stop=("A",))
    assert row.result().finish_reason == "stop" and row.result().text == "" and identity(row)
    assert row.result().acceptance_length is None and row.result().tokens_per_s is None


def test_text_comes_piece_by_piece_and_in_the_end_all_of_it() -> None:
    row = Row(0, 1, 6, frozenset({EOS}), TextStream(TOKENIZER, ("##",)))
    emoji = list("🙂".encode())
    pieces = [row.prefilled(emoji[0], 1.0).text, step(row, emoji[1:3]).text, step(row, [emoji[3], 65]).text]
    assert pieces == ["", "", "🙂A"]
    last = step(row, [ord("#")])  # the beginning of a stop string, but the limit comes first
    assert last.text == "#" and row.result().text == "🙂A#" and row.finish_reason == "length"


def test_a_piece_shows_special_tokens_as_they_are_written() -> None:
    assert [piece_of(TOKENIZER, token) for token in (65, EOS, 0xF0)] == ["A", "<|im_end|>", "\N{REPLACEMENT CHARACTER}"]
