"""The statistics that prove losslessness must themselves tell a right law from a wrong one."""

import numpy as np
import pytest
from scipy.stats import chisquare

from backend.analysis.chi_square import conditional_p_value, pooled


def test_without_small_cells_it_is_scipys_chi_square():
    observed, expected = np.array([18.0, 55.0, 27.0]), np.array([20.0, 50.0, 30.0])
    assert pooled(observed, expected) == (pytest.approx(chisquare(observed, expected).statistic), 2)


def test_small_cells_are_pooled():
    observed, expected = np.array([3.0, 5.0, 92.0]), np.array([4.0, 3.0, 93.0])
    assert pooled(observed, expected) == (pytest.approx(1 / 7 + 1 / 93), 1)


def test_an_impossible_token_is_never_pooled_away():
    assert pooled(np.array([1.0, 99.0]), np.array([0.0, 100.0]))[0] == float("inf")


def test_p_values_of_the_right_law_are_uniform_and_of_a_wrong_one_tiny():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(32, 0.3), size=20)
    p_values = [
        conditional_p_value(np.stack([rng.multinomial(2_000, row) for row in law]).astype(float), law)
        for _ in range(100)
    ]
    # A fair uniform sample of 100 has 3..20 values below 0.1 with probability 0.998.
    assert 3 <= sum(p < 0.1 for p in p_values) <= 20
    wrong = 0.97 * law + 0.03 / 32
    counts = np.stack([rng.multinomial(20_000, row) for row in wrong]).astype(float)
    assert conditional_p_value(counts, law) < 1e-6
