"""Resampling: what it draws, that equal names draw alike, and that its intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from backend.analysis.bootstrap import FEWEST_REPEATS, MOST_NUMBERS, interval, ratio_draws, weights


def test_every_repetition_draws_as_many_prompts_as_there_are() -> None:
    drawn = weights(12, "set")
    assert drawn.shape == (2000, 12) and (drawn.sum(axis=1) == 12).all()
    assert drawn.mean() == 1.0 and drawn.var() == pytest.approx(11 / 12, rel=0.05)
    assert (weights(12, "set") == drawn).all() and not (weights(12, "other") == drawn).all()


def test_many_prompts_do_not_fill_the_memory() -> None:
    assert len(weights(50_000, "set")) == FEWEST_REPEATS
    assert weights(1000, "set").size <= MOST_NUMBERS


def test_an_interval_of_a_known_law_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        numerators, denominators = rng.gamma(4, 1, 40), rng.gamma(8, 1, 40)
        found = interval(ratio_draws(numerators.tolist(), denominators.tolist(), "law"), 40)
        assert found is not None
        hits += found.low <= 0.5 <= found.high
    # 95 % of 200 is 190; a percentile bootstrap of 40 is a little narrow. P(hits < 175) < 1e-4 at a true 93 %.
    assert 175 <= hits <= 199


def test_no_interval_from_a_handful_or_from_nothing() -> None:
    draws = ratio_draws([1.0] * 4, [1.0] * 4, "few")
    assert interval(draws, 4) is None and interval(draws, 5) is not None
    assert interval(ratio_draws([1.0] * 6, [0.0] * 6, "none"), 6) is None
