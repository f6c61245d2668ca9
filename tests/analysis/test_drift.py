"""Drift from its definition: the law of what is emitted against the target's, position by position."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backend.analysis.drift import accepted_flags, distinct, diversity, drift_of, perplexity
from backend.decoding.records import StepTrace


def slow_distances(emitted: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """(total variation, KL(emitted || target)) of two laws over a vocabulary, as they are defined."""
    known = emitted > 0
    return 0.5 * float(np.abs(emitted - target).sum()), float(
        (emitted[known] * np.log(emitted[known] / target[known])).sum()
    )


def test_each_position_is_a_point_mass_or_the_targets_own_law() -> None:
    rng = np.random.default_rng(0)
    laws, tokens = rng.dirichlet(np.full(12, 0.4), size=30), rng.integers(0, 12, 30)
    accepted = [bool(flag) for flag in rng.integers(0, 2, 30)]
    distances = [
        slow_distances(np.eye(12)[token] if drafted else law, law)
        for law, token, drafted in zip(laws, tokens, accepted, strict=True)
    ]
    log_p = [math.log(law[token]) for law, token in zip(laws, tokens, strict=True)]
    found = drift_of(log_p, accepted, exact=False)
    assert found.total_variation == pytest.approx(sum(tv for tv, _ in distances))
    assert found.kl == pytest.approx(sum(kl for _, kl in distances))
    assert (found.positions, found.accepted) == (30, sum(accepted))
    assert perplexity(found.negative_log_p, 30) == pytest.approx(math.exp(-np.mean(log_p)))
    exact = drift_of(log_p, accepted, exact=True)
    assert (exact.total_variation, exact.kl, exact.accepted) == (0, 0, sum(accepted))
    both = found + exact
    assert both.positions == 60 and both.mean_kl == pytest.approx(found.kl / 60)


def test_flags_and_positions_must_match() -> None:
    with pytest.raises(ValueError, match="2 positions have 1 flags"):
        drift_of([-1.0, -2.0], [True], exact=False)
    assert drift_of([], [], exact=False).mean_total_variation is None


def step(row: int, accepted: int, tokens: list[int]) -> StepTrace:
    return StepTrace(row, 1, 4, accepted, 1, 0, tokens, "", 1, 1, 1, 3)


def test_flags_follow_the_steps_cut_or_not() -> None:
    steps = [step(0, 2, [5, 6, 7]), step(1, 0, [8]), step(0, 3, [1, 2]), step(1, 1, [9, 3])]
    assert accepted_flags(steps) == {0: [True, True, False, True, True], 1: [False, True, False]}


def test_distinct_counts_different_n_grams() -> None:
    assert distinct([[1, 2, 1, 2], [3]], 1) == 3 / 5
    assert distinct([[1, 2, 1, 2]], 2) == 2 / 3
    assert distinct([[1]], 2) is None


def test_diversity_is_what_answers_to_one_prompt_do_not_share() -> None:
    assert diversity([[[1, 2, 3], [1, 2, 3]]]) == 0
    assert diversity([[[1, 2, 3], [1, 2, 4]]]) == pytest.approx(1 - 1 / 3)
    assert diversity([[[1, 2, 3], [4, 5, 6]], [[1, 2], [1, 2]]]) == 0.5
    assert diversity([[[1, 2, 3]]]) is None
