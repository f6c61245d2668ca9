"""The identity is exact in its own terms, repetition equals a slow count, and ratios refuse what has no steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.analysis.repetition import repeated_share
from backend.analysis.speed import conditional_acceptance, speed_identity, totals
from backend.decoding.records import DecodeResult


def result(steps: int, accepted: int, draft_ms: float, verify_ms: float, other_ms: float) -> DecodeResult:
    return DecodeResult(
        row=0,
        prompt_tokens=3,
        tokens=[0] * (1 + steps + accepted),
        text="",
        num_steps=steps,
        num_drafted=4 * steps,
        num_accepted=accepted,
        num_cut=0,
        accepted_per_depth=[accepted],
        drafted_per_depth=[steps],
        prefill_ms=5.0,
        draft_ms=draft_ms,
        verify_ms=verify_ms,
        commit_ms=other_ms,
        overhead_ms=0.0,
        finish_reason="length",
    )


def test_the_identity_explains_the_speedup_when_nothing_was_cut() -> None:
    drafted = totals([result(10, 8, 10.0, 130.0, 4.0), result(5, 1, 5.0, 66.0, 2.0)])
    plain = totals([result(24, 0, 0.0, 236.0, 4.0)])
    identity = speed_identity(drafted, plain)
    assert identity.acceptance_length == pytest.approx(1 + 9 / 15)
    assert identity.verify == pytest.approx(196 / 15 / 10)
    assert identity.explained == pytest.approx(identity.speedup)


def test_no_steps_no_speedup() -> None:
    with pytest.raises(ValueError, match="need steps"):
        speed_identity(totals([]), totals([result(1, 0, 0, 1, 0)]))


def test_conditional_acceptance_is_none_where_nothing_was_drafted() -> None:
    assert conditional_acceptance([6, 3, 0], [10, 6, 0]) == [0.6, 0.5, None]


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 5))
def test_repeated_share_equals_a_slow_count(tokens: list[int], n: int) -> None:
    inside = 0
    for place in range(len(tokens)):
        grams = [tokens[s : s + n] for s in range(place - n + 1, place + 1) if s >= 0 and s + n <= len(tokens)]
        every = [tokens[s : s + n] for s in range(len(tokens) - n + 1)]
        inside += any(every.count(gram) > 1 for gram in grams)
    assert repeated_share(tokens, n) == pytest.approx(inside / len(tokens) if len(tokens) >= n else 0.0)
