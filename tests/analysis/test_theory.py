"""The formulas of the Learn page against worked examples, simulation and their own limits."""

from __future__ import annotations

import random

import pytest

from backend.analysis.theory import (
    DEVICES,
    Device,
    ModelSize,
    TimedPass,
    best_depth,
    chain_length,
    chain_speedups,
    free_nodes,
    measured_device,
    pass_cost,
    paying_batch,
    product_length,
    speedup,
    typical_accepts,
    typical_threshold,
)

EIGHT_B = ModelSize(parameters=8e9, cache_values=2 * 32 * 8 * 128, attention_width=32 * 32 * 128)
H100 = next(device for device in DEVICES if device.name == "NVIDIA H100 SXM")


def test_the_worked_examples() -> None:
    assert round(chain_length([0.6, 0.4, 0.3]), 2) == 1.91
    length, nodes = product_length([3, 2, 1], [0.8, 0.55, 0.3])
    assert (round(length, 2), nodes) == (2.37, 15)


def test_the_length_of_a_chain_is_what_a_simulation_counts() -> None:
    """100,000 steps; within 5 standard deviations."""
    chance, rates, steps = random.Random(3), [0.8, 0.5, 0.6], 100_000
    total = 0
    for _ in range(steps):
        accepted = 0
        while accepted < len(rates) and chance.random() < rates[accepted]:
            accepted += 1
        total += 1 + accepted
    assert abs(total / steps - chain_length(rates)) < 5 * 1.2 / steps**0.5


def test_one_rate_at_every_depth_is_the_geometric_sum() -> None:
    assert chain_length([0.7] * 5) == pytest.approx((1 - 0.7**6) / (1 - 0.7))


def test_nothing_drafted_gains_nothing() -> None:
    assert chain_speedups([0.9, 0.9], 0.1, 0.05, 0.2)[0].speedup == 1.0
    assert speedup(1.0, 1.0) == 1.0


def test_depth_pays_until_a_level_gains_less_than_it_costs() -> None:
    points = chain_speedups([0.8] * 8, draft=0.05, per_row=0.05)
    best = best_depth(points)
    assert 0 < best.depth < 8
    gained = points[best.depth + 1].acceptance_length - best.acceptance_length
    assert gained / best.acceptance_length < 0.1 / (1 + 0.1 * best.depth)
    assert best_depth(chain_speedups([0.3] * 4, draft=0.4, per_row=0.1)).depth == 0


def test_typical_acceptance_asks_little_of_an_unsure_target() -> None:
    assert typical_threshold(0.0, 0.09, 0.3) == 0.09
    assert typical_threshold(3.0, 0.09, 0.3) == pytest.approx(0.3 * 2.718281828**-3)


def test_a_small_batch_reads_and_a_large_one_computes() -> None:
    alone, many = pass_cost(EIGHT_B, H100, 1), pass_cost(EIGHT_B, H100, 1, batch=1024)
    assert (alone.limited_by, many.limited_by) == ("memory", "computing")
    assert alone.time_s == pytest.approx(16e9 / 3350e9)
    with_context = pass_cost(EIGHT_B, H100, 1, batch=8, context=8192)
    assert with_context.bytes - alone.bytes == 8 * 8192 * EIGHT_B.cache_values * 2


def test_free_nodes_are_the_most_that_cost_nothing() -> None:
    free = free_nodes(EIGHT_B, H100)
    plain = pass_cost(EIGHT_B, H100, 1).time_s
    assert free > 100 and pass_cost(EIGHT_B, H100, 1 + free).time_s == pytest.approx(plain)
    assert pass_cost(EIGHT_B, H100, 2 + free).time_s > plain
    assert free_nodes(EIGHT_B, H100, batch=1024) == 0
    assert free_nodes(EIGHT_B, H100, batch=8) < free


def test_speculation_stops_paying_at_a_batch() -> None:
    batch = paying_batch(EIGHT_B, H100, acceptance_length=2.5, nodes=16, draft=0.1)
    gains = []
    for size in (batch, batch + 1):
        verify = pass_cost(EIGHT_B, H100, 17, size).time_s / pass_cost(EIGHT_B, H100, 1, size).time_s
        gains.append(speedup(2.5, verify, 0.1))
    assert gains[0] > 1 >= gains[1]
    assert paying_batch(EIGHT_B, H100, acceptance_length=1.05, nodes=16, draft=0.2) == 0
    slow = Device("reads slowly", 1e9, 1e15)
    assert paying_batch(EIGHT_B, slow, acceptance_length=2.0, nodes=1) == 4096


@pytest.mark.parametrize(
    "call",
    [
        lambda: chain_length([1.2]),
        lambda: product_length([2], [0.5, 0.5]),
        lambda: product_length([0], [0.5]),
        lambda: speedup(2, 0),
        lambda: pass_cost(EIGHT_B, H100, 0),
    ],
)
def test_impossible_numbers_are_refused(call: object) -> None:
    with pytest.raises(ValueError):
        call()  # type: ignore[operator]


def test_a_measured_device_is_the_one_whose_best_passes_were_timed() -> None:
    """Passes that take exactly what the roofline says give the device back, whatever stands beside them."""
    at_best = [
        TimedPass(rows, batch, 1024, pass_cost(EIGHT_B, H100, rows, batch, 1024).time_s)
        for rows, batch in [(1, 1), (4, 1), (64, 16), (128, 16)]
    ]
    slow = TimedPass(2, 1, 1024, 1.0)
    seen = measured_device(EIGHT_B, [*at_best, slow], "mine")
    assert seen.name == "mine"
    assert seen.bandwidth == pytest.approx(H100.bandwidth) and seen.operations == pytest.approx(H100.operations)
    with pytest.raises(ValueError, match="timed pass"):
        measured_device(EIGHT_B, [], "mine")


def test_typical_acceptance_takes_what_lies_above_its_threshold() -> None:
    """epsilon 0.1, delta 0.5: 0.1 at 0 nats, 0.5 / e^3 = 0.025 at 3."""
    points = [(0.0, 0.11), (0.0, 0.1), (3.0, 0.03), (3.0, 0.02)]
    assert typical_accepts(points, 0.1, 0.5) == [True, False, True, False]
