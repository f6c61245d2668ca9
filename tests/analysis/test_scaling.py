"""Acceptance against data: known curves are found again, intervals hold what they promise, and doubt is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backend.analysis.scaling import Run, fit

TOKENS = (20_000.0, 40_000.0, 80_000.0, 160_000.0)


def length(tokens: float, ceiling: float = 2.6, slope: float = 40.0, alpha: float = 0.4) -> float:
    return ceiling - slope * tokens**-alpha


def runs_of(error: float, seed: int | None = None, tokens: tuple[float, ...] = TOKENS) -> list[Run]:
    noise = np.zeros(len(tokens)) if seed is None else np.random.default_rng(seed).normal(0, error, len(tokens))
    return [Run(n, length(n) + float(off), error) for n, off in zip(tokens, noise, strict=True)]


def test_runs_without_noise_give_the_curve_back() -> None:
    found = fit(runs_of(1e-4))
    assert found.at(320_000).median == pytest.approx(length(320_000), abs=0.01)
    needed, never = found.more_for(0.1)
    truth = (40.0 / (40.0 * 160_000**-0.4 - 0.1)) ** (1 / 0.4) - 160_000
    assert needed.median == pytest.approx(truth, rel=0.15) and needed.low < truth < needed.high
    assert never < 0.01 and found.misfit is not None and found.misfit < 1


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = [
        span.low <= length(320_000) <= span.high
        for span in (fit(runs_of(0.02, seed)).at(320_000) for seed in range(120))
    ]
    assert 0.88 <= sum(held) / len(held) <= 1.0


def test_more_noise_and_fewer_runs_give_wider_answers() -> None:
    def width(error: float, tokens: tuple[float, ...] = TOKENS) -> float:
        span = fit(runs_of(error, tokens=tokens)).at(320_000)
        return span.high - span.low

    assert width(0.005) < width(0.02) < width(0.05)
    assert width(0.02) < width(0.02, TOKENS[:3])


def test_a_gain_beyond_the_ceiling_is_said_to_be_out_of_reach() -> None:
    needed, never = fit(runs_of(1e-3)).more_for(2.0)
    assert math.isinf(needed.median) and math.isinf(needed.high) and never > 0.99
    small, _ = fit(runs_of(1e-3)).more_for(0.01)
    large, _ = fit(runs_of(1e-3)).more_for(0.1)
    assert 0 < small.median < large.median


def test_the_same_runs_give_the_same_answer() -> None:
    assert fit(runs_of(0.02, 1), seed=5).more_for(0.1) == fit(runs_of(0.02, 1), seed=5).more_for(0.1)


def test_runs_that_differ_in_more_than_their_data_are_noticed() -> None:
    runs = runs_of(0.005)
    runs[2] = Run(runs[2].tokens, runs[2].acceptance_length - 0.3, 0.005)
    assert (fit(runs).misfit or 0) > 3


@pytest.mark.parametrize(
    ("runs", "problem"),
    [
        (runs_of(0.02)[:2], "needs 3 runs"),
        ([*runs_of(0.02)[:2], runs_of(0.02)[1]], "there are 2"),
        ([Run(0, 1.5, 0.1), *runs_of(0.02)], "tokens above 0"),
        ([Run(10, 1.5, 0.0), *runs_of(0.02)], "error above 0"),
        ([Run(n, 3 - place * 0.5, 0.001) for place, n in enumerate(TOKENS)], "did not raise"),
    ],
)
def test_what_cannot_be_fitted_is_refused(runs: list[Run], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        fit(runs)
    with pytest.raises(ValueError, match="above 0"):
        fit(runs_of(0.02)).more_for(0.0)
