"""The sweep's mathematics against slow twins: Wilcoxon's test, fronts, importance."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from backend.sweeps.importance import explained, groups, importances
from backend.sweeps.objectives import OBJECTIVES, front
from backend.sweeps.wilcoxon import p_greater


def slow_p(differences: list[float]) -> float:
    """Every way to give the differences signs; ties share their mean rank."""
    sizes = [abs(d) for d in differences if d]
    if not sizes:
        return 1.0
    ranks = [sum(other < size for other in sizes) + (sizes.count(size) + 1) / 2 for size in sizes]
    seen = sum(rank for rank, d in zip(ranks, [d for d in differences if d], strict=True) if d > 0)
    ways = [sum(r for r, up in zip(ranks, ups, strict=True) if up) for ups in product((0, 1), repeat=len(ranks))]
    return sum(way >= seen for way in ways) / len(ways)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-4, 4).map(float), max_size=9))
def test_wilcoxon_is_its_slow_twin_ties_and_zeros_too(differences: list[float]) -> None:
    assert p_greater(differences) == pytest.approx(slow_p(differences), abs=1e-12)


@pytest.mark.parametrize("count", [7, 25, 60])
def test_wilcoxon_is_scipys_without_ties(count: int) -> None:
    differences = np.random.default_rng(count).normal(0.2, 1, count)
    expected = wilcoxon(differences, alternative="greater", method="exact").pvalue
    assert p_greater(differences.tolist()) == pytest.approx(expected, rel=1e-9)


def test_wilcoxon_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="finite"):
        p_greater([1.0, float("nan")])


GOALS = (OBJECTIVES["speed"], OBJECTIVES["drift"])


@given(st.lists(st.tuples(st.integers(0, 5).map(float), st.integers(0, 5).map(float)), max_size=12))
def test_the_front_is_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
        return a[0] >= b[0] and a[1] <= b[1] and a != b

    numbered = dict(enumerate(points))
    expected = {n for n, point in numbered.items() if not any(beats(other, point) for other in points)}
    found = front(numbered, GOALS)
    assert set(found) == expected and len(found) == len(expected)
    assert [numbered[n][0] for n in found] == sorted((numbered[n][0] for n in found), reverse=True)


def test_importance_tells_what_matters_from_what_does_not() -> None:
    rng = np.random.default_rng(0)
    rows = [{"tree": f"chain-{rng.integers(1, 4)}", "epsilon": float(rng.random()), "idle": float(rng.random())}
            for _ in range(400)]  # fmt: skip
    figures = [int(row["tree"][-1]) + 0.5 * row["epsilon"] + 0.1 * rng.normal() for row in rows]
    found = importances(rows, figures, ["tree", "epsilon", "idle"])
    assert found["tree"] > 0.85 and 0.01 < found["epsilon"] < 0.1 and found["idle"] < 0.02
    assert importances(rows[:3], figures[:3], ["tree"]) == {}
    assert importances(rows, [1.0] * 400, ["tree"]) == {}


def test_explained_is_one_minus_the_unbiased_variances() -> None:
    figures, kinds = np.array([1.0, 2.0, 5.0, 6.0, 7.0]), [0, 0, 1, 1, 1]
    within = (0.5 + 2.0) / 3
    assert explained(kinds, figures) == pytest.approx(1 - within / figures.var(ddof=1))
    assert explained([0] * 5, figures) == 0


def test_a_range_is_grouped_by_quantiles_and_a_missing_knob_stands_alone() -> None:
    sizes = np.bincount(groups([float(value) for value in range(600)]))
    assert len(sizes) == 6 and sizes.min() == sizes.max() == 100
    assert groups([1, 2, None, 1]) == [0, 1, 2, 0]
