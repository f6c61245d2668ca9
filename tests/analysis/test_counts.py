"""Counts of answers: shared steps add up to the time that passed, and JSON gives back what went in."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from backend.analysis.counts import add_depths, counts_from_dict, prompt_counts, totals_of
from backend.analysis.repetition import repeated_share
from backend.analysis.token_classes import CONTENT, FORMAT
from backend.decoding.records import DecodeResult, PrefillTrace, StepTrace
from tests.analysis.made_up import answer

Record = PrefillTrace | StepTrace | DecodeResult
NAMES = {0: ("zero", "x"), 1: ("one", "y"), 2: ("two", "x")}


def prefill(row: int) -> PrefillTrace:
    return PrefillTrace(row, 3, 7, "", 5.0)


def step(row: int, number: int, step_ms: float) -> StepTrace:
    return StepTrace(row, number, 4, 1, 2, 0, [1, 2], "", 0.1 * step_ms, 0.7 * step_ms, 0.1 * step_ms, step_ms)


def result(row: int, steps: int, reason: str = "length") -> DecodeResult:
    tokens = [row] * (1 + 2 * steps)
    return DecodeResult(row, 3, tokens, "", steps, 4 * steps, steps, 0, [steps], [steps], 5.0, 0, 0, 0, 0, reason)


#: Rows 0 and 1 open; 0 ends after one step and 2 takes its place at once; then 1 and 2 end together.
RECORDS: list[Record] = [
    prefill(0), prefill(1), step(0, 1, 12.0), step(1, 1, 12.0), result(0, 1), prefill(2), step(2, 1, 8.0),
    step(1, 2, 8.0), step(2, 2, 10.0), step(1, 3, 10.0), result(1, 3), result(2, 2),
]  # fmt: skip


def test_rows_share_their_steps() -> None:
    counts = {one.prompt: one for one in prompt_counts(RECORDS, NAMES)}
    assert counts["zero"].decode_ms == pytest.approx(6.0) and counts["zero"].row_ms == pytest.approx(12.0)
    assert counts["one"].decode_ms == pytest.approx(15.0) and counts["one"].row_ms == pytest.approx(30.0)
    assert counts["two"].verify_ms == pytest.approx(0.7 * 9.0) and counts["two"].draft_ms == pytest.approx(0.9)
    assert counts["two"].other_ms == pytest.approx(0.2 * 9.0)
    assert totals_of(counts.values()).decode_ms == pytest.approx(30.0)  # the three steps that there were
    assert (counts["one"].category, counts["one"].num_repeated) == ("y", 0) and repeated_share([1] * 7) == 0
    assert counts["zero"].digest != counts["two"].digest


def test_a_lone_row_has_all_of_its_steps_and_cancelled_ones_are_left_out() -> None:
    alone: list[Record] = [prefill(1), step(1, 1, 4.0), step(1, 2, 6.0), result(1, 2)]
    (one,) = prompt_counts(alone, NAMES)
    assert one.decode_ms == pytest.approx(10.0) == pytest.approx(one.row_ms)
    assert prompt_counts([*alone[:-1], result(1, 2, "cancelled")], NAMES) == []


def test_json_keeps_everything_and_forgives_what_is_new() -> None:
    made = answer(random.Random(3), "q", "x", 3)
    stored = json.loads(json.dumps(made.to_dict() | {"of_a_later_version": 1}))
    assert counts_from_dict(stored) == made
    del stored["num_cut"]
    with pytest.raises(KeyError, match="num_cut"):
        counts_from_dict(stored)


def test_depths_add_up_whatever_their_lengths() -> None:
    assert add_depths([(3, 1), (), (2, 2, 1)]) == (5, 3, 1) and add_depths([]) == ()


def test_older_counts_have_no_classes() -> None:
    made = replace(answer(random.Random(3), "q", "x", 3), tried_by_class=(1, 2, 3), accepted_by_class=(0, 2, 1))
    stored = json.loads(json.dumps(made.to_dict()))
    assert counts_from_dict(stored) == made
    older = {key: value for key, value in stored.items() if not key.endswith("_by_class")}
    assert counts_from_dict(older) == replace(made, tried_by_class=None, accepted_by_class=None)
    with pytest.raises(KeyError):
        counts_from_dict({key: value for key, value in stored.items() if key != "num_steps"})


def test_drafts_are_counted_by_the_class_of_what_was_written() -> None:
    """Steps 1 and 2 of row 1 write tokens 1 and 2 with one accepted of two tried; even tokens are content here."""
    classify = lambda tokens: [CONTENT if token % 2 == 0 else FORMAT for token in tokens]  # noqa: E731
    last = replace(result(1, 2), tokens=[7, 1, 2, 1, 2])
    (one,) = prompt_counts([prefill(1), step(1, 1, 4.0), step(1, 2, 6.0), last], NAMES, classify=classify)
    assert one.accepted_by_class == (0, 2, 0) and one.tried_by_class == (0, 2, 2)
    assert prompt_counts([prefill(1), step(1, 1, 4.0), step(1, 2, 6.0), last], NAMES)[0].tried_by_class is None
