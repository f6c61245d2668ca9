"""The rank test: right samplers pass at the stated level, shifted ones are found with the promised power.

Error rates. 400 right runs at level 0.05 are refused 20 times on average; fewer than 6 or more than 38 happen by chance
once in 10,000. A power of 0.9 over 100 shifted runs gives fewer than 78 with probability below 3e-4.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from backend.analysis.ranks import NUM_CELLS, Tally, detectable, p_value, positions_needed, quadratic, tally

V = 40


def _laws(g: torch.Generator, count: int) -> torch.Tensor:
    """Laws of very different sharpness."""
    return (torch.randn(count, V, generator=g) * (4 * torch.rand(count, 1, generator=g))).softmax(-1)


def _draw(laws: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    return torch.multinomial(laws, 1, generator=g)[:, 0]


def test_cells_by_hand() -> None:
    law = torch.tensor([[0.1, 0.5, 0.4], [0.2, 0.2, 0.6]])
    found = tally(law, torch.tensor([2, 1]))
    assert found.positions == 2 and found.impossible == 0
    # First: token 2 has rank 2. Second: of tokens 0 and 1, equally likely, the one with the lower number ranks first.
    assert found.observed.tolist() == [0, 1, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(found.expected, [1.1, 0.6, 0.3, 0, 0, 0, 0], atol=1e-7)
    one = np.array([0.5, 0.4, 0.1]), np.array([0.6, 0.2, 0.2])
    np.testing.assert_allclose(found.covariance[:3, :3], sum(np.diag(c) - np.outer(c, c) for c in one), atol=1e-7)
    again = Tally.from_dict((found + Tally()).to_dict())
    assert again.to_dict() == found.to_dict()


def test_right_samples_are_refused_as_often_as_the_level_says() -> None:
    g, refused = torch.Generator().manual_seed(0), 0
    for _ in range(400):
        laws = _laws(g, 600)
        value = p_value(tally(laws, _draw(laws, g)))
        assert value is not None
        refused += value < 0.05
    assert 6 <= refused <= 38


def test_a_shift_between_cells_is_found_with_the_promised_power() -> None:
    g, alpha = torch.Generator().manual_seed(1), 0.001
    assert 2000 < positions_needed(0.05, alpha, 0.9) < 4000
    count = positions_needed(0.1, alpha, 0.9)
    found = 0
    for _ in range(100):
        laws = _laws(g, count)
        best = torch.nn.functional.one_hot(laws.argmax(-1), V)
        # One of ten draws is turned into the best token, where it was not that one anyway.
        wrong = 0.1 / (1 - laws.max(-1, keepdim=True).values.mean())
        value = p_value(tally(laws, _draw(laws * (1 - wrong) + wrong * best, g)))
        assert value is not None
        found += value < alpha
    assert found >= 78
    assert detectable(count, alpha, 0.9) == pytest.approx(0.1, rel=0.01)


def test_what_cannot_be_said_is_not_said() -> None:
    assert p_value(Tally()) is None and Tally().total_variation is None and detectable(0, 0.01, 0.9) is None
    assert quadratic(tally(torch.eye(V)[:30], torch.arange(30))) == (0.0, 0)  # one cell only: nothing to compare
    law = torch.tensor([[1.0, 0.0]])
    assert p_value(tally(law, torch.tensor([1]))) == 0.0  # a token that the law forbids
    assert len(tally(law, torch.tensor([0])).observed) == NUM_CELLS
