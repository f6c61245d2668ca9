"""What is tuned from made-up calibrations: trees, stops, dynamic trees, schedules; and the mistakes one can make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backend.analysis.calibration import MISS, Walk, replay
from backend.errors import HeadwayError
from backend.trees import AdaptiveShape, DynamicShape, TreeShape, chain
from backend.trees.search import HitTable, expected_acceptance_length
from backend.tuning.calibration import Calibration, calibration_from
from backend.tuning.cost_curve import CostCurve, Growth, PassCost
from backend.tuning.notation import notations, sglang_schedule, vllm_schedule
from backend.tuning.stopping import best_stopping, expected_stopping
from backend.tuning.tree_choice import Candidate, fastest
from backend.tuning.tuned import foretold, tune_calibration, tune_hits
from tests.tuning.made_up import RATES, SHAPE, calibration, cost

MADE = calibration()


def test_rates_alone_give_the_longest_tree() -> None:
    found = tune_hits(HitTable([[0.6], [0.4], [0.3]]), None, 3)
    assert found.best.shape == chain(3) and f"{found.best.length:.2f}" == "1.91"
    assert found.best.tokens_per_s is None
    wide = tune_hits(HitTable([[0.3, 0.3, 0.2], [0.3, 0.25], [0.3]]), None, 15)
    assert wide.best.shape.num_nodes == 15 and f"{wide.best.length:.2f}" == "2.37"


def test_with_costs_the_quotient_decides_over_all_sizes_and_depths() -> None:
    prices = cost(slope=2.0)
    found = tune_hits(HitTable(RATES), prices, 30, context=128)

    def speed(shape: TreeShape) -> float:
        return expected_acceptance_length(shape, RATES) / prices.step(Growth.of(shape), 1, 128).ms

    best = max(speed(one.shape) for one in found.sizes)
    assert found.best.tokens_per_s == pytest.approx(1000 * best)
    for other in (chain(1), chain(2), chain(3), TreeShape(((0,), (1,), (0, 0), (1, 0))), TreeShape(())):
        assert found.best.tokens_per_s is not None and found.best.tokens_per_s >= 1000 * speed(other)


def test_where_a_row_costs_as_much_as_a_pass_nothing_is_drafted() -> None:
    found = tune_hits(HitTable([[0.3], [0.2]]), cost(slope=20.0), 8, context=128)
    assert found.best.shape.num_nodes == 0 and "Plain decoding is the fastest" in found.notes[-1]


def test_beyond_what_was_measured_is_said() -> None:
    short = CostCurve((PassCost(1, 1, 0, 10, 10, 10, 1), PassCost(2, 1, 0, 10.01, 10, 10, 1)))
    found = tune_hits(HitTable([[0.5, 0.2], [0.4]]), short, 8)
    assert found.best.extrapolated and "beyond what was measured" in found.notes[-1]


def test_a_replayed_decode_is_near_the_expectation_and_has_an_interval() -> None:
    found = tune_calibration(MADE, None, 12)
    assert found.best.length == pytest.approx(expected_acceptance_length(found.best.shape, RATES), rel=0.05)
    assert found.best.interval is not None and found.best.interval.low < found.best.length < found.best.interval.high
    assert [one.shape.num_nodes for one in found.sizes] == list(range(13))
    lengths = [one.length for one in found.sizes]
    assert lengths[0] == 1 and lengths == pytest.approx(sorted(lengths), abs=0.03)


def test_a_tree_is_judged_by_answers_it_was_not_chosen_by() -> None:
    comb = TreeShape(tuple((*(0,) * d, rank) for d in range(2) for rank in range(10)))
    honest, flattered = [], []
    for seed in range(12):  # ten ranks, each as good as any other: what makes one look better is chance
        drawn = np.random.default_rng(seed).integers(0, 20, (12, 9, 2))
        ranks = np.where(drawn < 10, drawn, MISS).astype(np.int8)
        silent = np.full((9, comb.num_nodes), 255, np.uint8)
        few = Calibration(comb, 10, True, tuple(Walk(str(n), "", 0.0, 5, one, silent) for n, one in enumerate(ranks)))
        found = tune_calibration(few, None, 5).best
        truth = 1 + sum(0.05 ** len(path) for path in found.shape.paths)
        honest.append(found.length - truth)
        flattered.append(replay(found.shape, few.walks).acceptance_length - truth)
    assert sum(flattered) / 12 > 0.03 and abs(sum(honest)) < 0.5 * sum(flattered)
    tiny = calibration(prompts=3)
    alone = tune_calibration(tiny, None, 5).best
    assert alone.length == replay(alone.shape, tiny.walks).acceptance_length


def test_everything_is_on_one_footing() -> None:
    prices = cost(slope=0.8)
    found = tune_calibration(MADE, prices, 20, context=128)
    data = found.to_dict()
    assert data["expected_tokens_per_s"] > data["plain_tokens_per_s"] and data["speedup"] > 1
    assert data["speed_interval"]["low"] < data["expected_tokens_per_s"] < data["speed_interval"]["high"]
    assert found.dynamic is None  # the candidates of Medusa heads do not depend on the path
    assert found.stopping is not None
    best_chain = max(
        replay(chain(d), MADE.walks).acceptance_length / prices.step(Growth.of(chain(d)), 1, 128).ms for d in range(4)
    )
    assert found.stopping.tokens_per_s > 1000 * best_chain  # its confidence says when a guess is right
    speeds = {line["batch"]: line["speedup"] for line in data["batches"]}
    assert speeds[1] > speeds[16] >= 1 and min(speeds) == 1
    assert data["num_speculative_tokens_per_batch_size"][0][0] == 1


def test_a_confidence_that_says_nothing_stops_nowhere_or_everywhere() -> None:
    prices = cost(slope=0.8)
    same = calibration(confidence=0.5)
    found = best_stopping(same.walks, SHAPE, prices, 128)
    assert found is not None
    best_chain = max(
        replay(chain(d), same.walks).acceptance_length / prices.step(Growth.of(chain(d)), 1, 128).ms for d in range(4)
    )
    assert found.tokens_per_s == pytest.approx(1000 * best_chain, rel=0.02)
    assert max(found.depths) == pytest.approx(1)


def test_stops_are_judged_by_answers_they_were_not_chosen_by() -> None:
    prices, two = cost(slope=6), chain(2)  # the second guess is worth about what it costs
    honest = flattered = 0.0
    for seed in range(12):  # the second guess comes true half of the time, whatever the confidence says
        rng = np.random.default_rng(seed)
        walks = []
        for number in range(12):
            ranks = np.where(rng.random((12, 2)) < (0.9, 0.5), 0, MISS).astype(np.int8)
            ranks[ranks[:, 0] == MISS, 1] = MISS
            walks.append(Walk(str(number), "", 0.0, 5, ranks, rng.integers(1, 60, (12, 2)).astype(np.uint8)))
        found = best_stopping(walks, two, prices, 128)
        assert found is not None and len(found.replay.tokens) == 12 and sum(found.depths) == pytest.approx(1)
        known = expected_stopping(walks, two, AdaptiveShape(two, found.thresholds), prices, 128)
        honest, flattered = honest + found.tokens_per_s, flattered + known.tokens_per_s
    assert flattered > 1.001 * honest  # the very answers would give a ratio of 1


def test_any_stops_can_be_foretold() -> None:
    prices, never, always = cost(slope=0.8), AdaptiveShape(chain(3), (2.0, 2.0)), AdaptiveShape(chain(3), (0.0, 0.0))
    for tree, depth in ((never, 1), (always, 3)):
        found = expected_stopping(MADE.walks, SHAPE, tree, prices, 128)
        assert found.replay == replay(chain(depth), MADE.walks) and found.depths[depth] == 1
        assert foretold(MADE, tree, prices, 1, 128)["expected_tokens_per_s"] == found.tokens_per_s
    assert foretold(MADE, always, None, 1, 128)["expected_tokens_per_s"] is None
    with pytest.raises(HeadwayError, match="batch 1"):
        foretold(MADE, always, prices, 4, 128)
    with pytest.raises(HeadwayError, match="depths by batch"):
        foretold(MADE, AdaptiveShape(chain(3), (), ((1, 2),)), prices, 1, 128)
    with pytest.raises(HeadwayError, match="can't grow trees"):
        foretold(replace(MADE, conditions={}), DynamicShape(3, 2, 4), prices, 1, 128)


def test_stops_by_confidence_are_refused_for_sampled_children_and_need_a_confidence() -> None:
    with pytest.raises(HeadwayError, match="chosen children"):
        best_stopping(MADE.walks, SHAPE, cost(), 128, sampled=True)
    assert best_stopping(calibration(confidence=float("nan")).walks, SHAPE, cost(), 128) is not None
    silent = [type(w)(w.prompt, "", 0.0, 9, w.ranks, np.full_like(w.confidence, 255)) for w in MADE.walks]
    assert best_stopping(silent, SHAPE, cost(), 128) is None


def test_only_one_temperature_and_domain() -> None:
    assert {walk.category for walk in MADE.only(0.0, "x").walks} == {"x"}
    with pytest.raises(HeadwayError, match="at temperature 1; it was made at 0"):
        MADE.only(1.0)
    with pytest.raises(HeadwayError, match="domain 'z'; it knows x, y"):
        MADE.only(0.0, "z")


def test_a_calibration_survives_its_file_and_others_are_refused() -> None:
    data = MADE.to_dict()
    again = calibration_from(data, "x")
    assert again.positions == MADE.positions and (again.whole_ranks == MADE.whole_ranks).all()
    for broken in ({}, [], data | {"walks": [{}]}, data | {"format": 2}, data | {"shape": [[0, 0]]}, None):
        with pytest.raises(HeadwayError, match="x is no calibration"):
            calibration_from(broken, "x")
    with pytest.raises(HeadwayError, match="don't fit its tree"):
        calibration_from(data | {"shape": [[0]]}, "x")
    with pytest.raises(HeadwayError, match="x is empty"):
        calibration_from(data | {"walks": []}, "x")
    with pytest.raises(HeadwayError, match="no position whose next 3 tokens"):
        tune_calibration(Calibration(SHAPE, 3, True, ()), None, 4)


@pytest.mark.parametrize("nodes", [0, -1, 513])
def test_a_tree_has_some_nodes(nodes: int) -> None:
    with pytest.raises(HeadwayError, match="1 to 512 drafted nodes"):
        tune_hits(HitTable([[0.5]]), None, nodes)


def test_counts_of_others_include_the_root() -> None:
    words = notations(TreeShape(((0,), (1,), (2,), (0, 0), (0, 0, 0))))
    assert words["eagle"] == {"total_token": 6, "depth": 2, "top_k": 3}
    assert words["sglang"] == {
        "speculative_num_steps": 3, "speculative_eagle_topk": 3, "speculative_num_draft_tokens": 6,
    }  # fmt: skip
    assert words["medusa_choices"] == [[0], [1], [2], [0, 0], [0, 0, 0]]


def test_schedules_join_batches_of_one_depth() -> None:
    depths = [(1, 4), (2, 4), (4, 2), (8, 2), (16, 0)]
    assert vllm_schedule(depths) == [[1, 3, 4], [4, 15, 2], [16, 16, 0]]
    assert sglang_schedule(depths) == {"1": [4], "4": [2], "16": [0]}
    assert vllm_schedule([]) == []


def test_of_equals_the_smaller_tree_is_taken() -> None:
    assert fastest([Candidate(chain(3), 2.0), Candidate(chain(2), 2.0), Candidate(chain(1), 1.5)]).shape == chain(2)
