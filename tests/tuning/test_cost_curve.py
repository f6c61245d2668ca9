"""Times between measured points, beyond them, and what a curve says of the machine."""

from __future__ import annotations

import numpy as np
import pytest

from backend.trees import chain, product
from backend.tuning.cost_curve import CostCurve, Growth, PassCost, StepCost, fitted, median_cost
from backend.tuning.files import curve_from

ROWS = {1: 10.0, 2: 10.0, 4: 11.0, 8: 12.0, 16: 20.0, 32: 40.0, 64: 80.0}


def block(batch: int, context: int, scale: float = 1.0) -> list[PassCost]:
    return [PassCost(n, batch, context, ms * scale, ms * scale - 1, ms * scale + 1, 5) for n, ms in ROWS.items()]


def step(depth: int, extended: int, nodes: int, batch: int = 1) -> StepCost:
    draft = batch * (0.5 + 2 * depth + 0.1 * extended) if nodes else 0.0
    return StepCost(depth, extended, nodes, batch, draft, batch * (0.3 + 0.01 * nodes), 5)


STEPS = (step(0, 0, 0), step(1, 0, 1), step(4, 3, 4), step(3, 9, 20), step(2, 3, 8))
CURVE = CostCurve((*block(1, 128), *block(4, 128, 2.0), *block(1, 512, 1.5)), STEPS, "heads", {"device": "d"})


def test_measured_points_are_themselves_and_lie_on_straight_lines_between() -> None:
    assert CURVE.verify(8, 1, 128).ms == 12.0 and CURVE.verify(8, 1, 128).low == 11.0
    assert CURVE.verify(12, 1, 128).ms == pytest.approx(16.0)
    assert CURVE.verify(8, 1, 320).ms == pytest.approx(15.0)  # half way between the contexts
    assert CURVE.verify(8, 2, 128).ms == pytest.approx(12 + 12 / 3)  # a third of the way between the batches
    for rows, batch, context in ((1, 1, 128), (64, 4, 128), (20, 1, 300), (3, 3, 128)):
        assert not CURVE.verify(rows, batch, context).extrapolated


def test_what_lies_beyond_is_marked() -> None:
    longer = CURVE.verify(96, 1, 128)
    assert longer.extrapolated and longer.ms == pytest.approx(120.0)
    assert CURVE.verify(8, 1, 2048).extrapolated
    assert CURVE.verify(8, 4, 512).extrapolated  # that context was measured for one sequence only
    wider = CURVE.verify(4, 16, 128)
    assert wider.extrapolated and wider.ms == pytest.approx(40.0)  # 64 rows in all: as 16 in each of 4
    assert CURVE.step(Growth.of(chain(6)), 1, 128).extrapolated  # deeper than any tree that was timed
    assert not CURVE.step(Growth.of(chain(3)), 1, 128).extrapolated


def test_noise_is_never_continued_to_passes_that_take_no_time() -> None:
    noisy = CostCurve((PassCost(3, 1, 8, 15.0, 8.0, 16.0, 3), PassCost(4, 1, 8, 6.0, 3.0, 12.0, 3)))
    beyond = noisy.verify(16, 2, 8)
    assert (beyond.ms, beyond.low, beyond.high) == (6.0, 3.0, 12.0) and beyond.extrapolated


def test_a_step_is_drafting_and_the_pass_and_the_rest() -> None:
    shape = product([2, 2])  # 6 nodes, 2 with children
    whole = CURVE.step(Growth.of(shape), 1, 128)
    assert Growth.of(shape) == Growth(2, 2, 6)
    assert whole.ms == pytest.approx(CURVE.verify(7, 1, 128).ms + 0.5 + 4 + 0.2 + 0.36)
    assert CURVE.plain(1, 128).ms == pytest.approx(10.3)


def test_drafting_in_a_batch_that_was_not_timed_is_scaled_and_marked() -> None:
    found = CURVE.draft(Growth.of(chain(1)), 4)
    assert found.extrapolated and found.ms == pytest.approx(2.5 * 2)  # as the pass of one row grows
    both = CostCurve(CURVE.passes, (*STEPS, step(1, 0, 1, 4), step(3, 2, 3, 4)))
    assert both.draft(Growth.of(chain(1)), 2).ms == pytest.approx(2.5 + (10 - 2.5) / 3)


def test_weights_are_never_negative() -> None:
    features = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert fitted(features, np.array([3.0, 2.0, 1.0])).tolist() == pytest.approx([2.0, 0.0])
    assert fitted(features[:1], np.array([4.0])).tolist() == pytest.approx([4.0, 0.0])


def test_the_knee_is_where_the_long_passes_point_to() -> None:
    assert CURVE.knee() == 8  # 1.25 ms a row, so 10 ms are eight rows
    flat = CostCurve(tuple(PassCost(n, 1, 0, 10 + n / 100, 9, 11, 3) for n in ROWS))
    assert flat.knee() is None and CURVE.knee(batch=2) is None


def test_a_curve_survives_its_file() -> None:
    assert curve_from(CURVE.to_dict(), "x") == CURVE


def test_the_median_lies_between_its_order_statistics() -> None:
    ms, between = median_cost([5, 1, 4, 2, 3])
    assert ms == 3 and (between.low, between.high) == (1, 5)
    ms, between = median_cost(list(range(101)))
    assert ms == 50 and 38 <= between.low <= 42 and 58 <= between.high <= 62
