"""Paired statistics: against slow, obvious counting, known values, and how often their intervals hold the truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from backend.analysis.bootstrap import difference_interval
from backend.analysis.paired import Figure, difference, mcnemar, ratio, signed_rank


def figure(numbers: list[float], below: list[float] | None = None) -> Figure:
    return ratio(numbers, below or [1.0] * len(numbers), "test")


def test_a_difference_is_of_ratios_of_sums_and_not_of_means_of_ratios() -> None:
    first, second = figure([1, 30], [1, 10]), figure([2, 30], [1, 20])
    found = difference(first, second)
    assert found.value == pytest.approx(32 / 21 - 31 / 11) and found.change == pytest.approx((32 / 21) / (31 / 11) - 1)
    assert found.interval is None and found.change_interval is None  # two prompts know nothing


def test_equal_runs_differ_by_nothing_for_sure() -> None:
    numbers = [float(n) for n in range(1, 41)]
    found = difference(figure(numbers), figure(numbers))
    assert found.interval is not None and found.interval.low == found.interval.high == 0
    assert not found.interval.beyond_zero
    assert found.test is not None and found.test.p == 1.0 and found.test.equal == 40 and found.test.effect is None


def test_pairing_makes_a_small_difference_certain_that_unpaired_runs_could_not_show() -> None:
    rng = np.random.default_rng(1)
    hard = rng.gamma(2, 20, 60)  # prompts differ a lot, runs little
    found = difference(figure(hard.tolist()), figure((hard * 1.02).tolist()))
    assert found.change_interval is not None and found.change_interval.low == pytest.approx(0.02)
    assert found.interval is not None and found.interval.beyond_zero


def test_an_unknown_figure_has_no_difference_and_unknown_pairs_are_left_out() -> None:
    nothing = figure([0.0] * 6, [0.0] * 6)
    found = difference(nothing, figure([1.0] * 6))
    assert found.value is None and found.interval is None and found.change is None and found.test is None
    test = signed_rank([float("nan"), 1.0, -1.0, 0.0])
    assert test is not None and (test.higher, test.lower, test.equal) == (1, 1, 1)
    with pytest.raises(ValueError, match="same prompts, got 6 and 5"):
        difference(figure([1.0] * 6), figure([1.0] * 5))


def exact_p(values: list[float]) -> float:
    """Every way to give signs to the ranks, counted."""
    ranks = stats.rankdata(np.abs(values))
    seen = abs(float((ranks * np.sign(values)).sum()))
    sums = [abs(float((ranks * signs).sum())) for signs in product((-1, 1), repeat=len(ranks))]
    return sum(one >= seen - 1e-9 for one in sums) / len(sums)


@pytest.mark.parametrize(
    "values", [[3.0, 1.0, 2.0, -1.0, 2.0, 2.0], [1.0] * 8, [0.5, -0.5, 1.5, -2.0], [1.0, 2.0, 3.0, 4.0, -5.0, 6.0, 6.0]]
)
def test_few_pairs_are_tested_exactly_with_ties(values: list[float]) -> None:
    found = signed_rank(values)
    assert found is not None and found.p == pytest.approx(exact_p(values))


def test_division_that_rounds_differently_still_ties() -> None:
    found = signed_rank([0.1 + 0.2 - 0.3, 1.0, 0.1 * 3 - 0.3])
    assert found is not None and found.equal == 2


def test_effect_sizes() -> None:
    found = signed_rank([1.0, 2.0, 3.0, -4.0])
    assert found is not None and found.effect == pytest.approx((1 + 2 + 3 - 4) / 10)
    assert found.standardised == pytest.approx(0.5 / np.std([1, 2, 3, -4], ddof=1))


def test_mcnemar_looks_only_at_prompts_on_which_they_disagree() -> None:
    first = np.array([True] * 50 + [True] * 2 + [False] * 9 + [False] * 39)
    second = np.array([True] * 50 + [False] * 2 + [True] * 9 + [False] * 39)
    found = mcnemar(first, second)
    assert (found.both, found.only_first, found.only_second, found.neither) == (50, 2, 9, 39)
    assert found.p == pytest.approx(2 * sum(stats.binom.pmf(k, 11, 0.5) for k in range(3)))
    assert mcnemar(first, first).p == 1.0
    with pytest.raises(ValueError, match="same prompts"):
        mcnemar(first, second[:-1])


Counts = tuple[NDArray[np.float64], NDArray[np.float64]]  # accepted + steps, and steps


def drafters(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Counts, Counts]:
    """Two drafters on the same prompts: answers of about 100 tokens whose difficulty varies from prompt to prompt. On
    six prompts of ten they do exactly the same, on the others the second is a little better on average.
    """
    difficulty, tokens = rng.beta(4, 6, shape), rng.integers(20, 129, shape)
    steps = np.ceil(tokens / (1 + 2 * difficulty))
    first = rng.binomial((2 * steps).astype(int), difficulty)
    better = np.clip(difficulty + rng.normal(0.02, 0.05, shape), 0.01, 0.99)
    second = np.where(rng.random(shape) < 0.6, first, rng.binomial((2 * steps).astype(int), better))
    return (first + steps, steps), (second + steps, steps)


@pytest.mark.slow_stat
@pytest.mark.parametrize("prompts", [40, 480])
def test_intervals_hold_the_truth_in_95_of_100_comparisons(prompts: int) -> None:
    """1,000 comparisons with heavy ties. At a true 95 % the share lies within 93 and 97 % for 99.6 of 100 seeds."""
    (a, s), (b, t) = drafters(np.random.default_rng(1), (1_000_000,))
    truth = b.sum() / t.sum() - a.sum() / s.sum()
    relative = (b.sum() / t.sum()) / (a.sum() / s.sum()) - 1
    (a, s), (b, t) = drafters(np.random.default_rng(2), (1000, prompts))
    hits = {"difference": 0, "change": 0}
    for number in range(1000):
        name = f"comparison {number % 20}"  # the draws belong to what is random, so some different ones
        first, second = ratio(a[number], s[number], name), ratio(b[number], t[number], name)
        absolute = difference_interval(second.draws - first.draws, prompts)
        change = difference_interval(second.over(first).draws - 1, prompts)
        assert absolute is not None and change is not None
        hits["difference"] += absolute.low <= truth <= absolute.high
        hits["change"] += change.low <= relative <= change.high
    assert all(930 <= count <= 970 for count in hits.values()), hits
