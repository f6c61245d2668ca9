"""Points in the order of importance, within time and memory; times of real passes and steps."""

from __future__ import annotations

import pytest

from backend.drafters.ngram.config import NgramConfig
from backend.drafters.ngram.drafter import NgramDrafter
from backend.errors import HeadwayError
from backend.trees import chain
from backend.tuning.cost_measure import Bench, Drafting, Point, curve_of, scout, tasks, trees_for, within_memory
from tests.support.drafters import random_medusa
from tests.support.targets import target_of

TARGET = target_of("llama")


def test_one_sequence_comes_first_and_long_batches_last() -> None:
    blocks = tasks([1, 2, 8], [64, 16], 16, [chain(2)])
    assert blocks[0][0] == Point(1, 1, 16) and all(one.batch == 1 for one in blocks[0])
    assert blocks[1] == [Drafting(None, 1), Drafting(chain(2), 1)]
    assert blocks[-1][0] == Point(1, 8, 64)
    points = [one for block in blocks for one in block if isinstance(one, Point)]
    assert len(set(points)) == len(points) and max(one.rows for one in points) == 16
    assert tasks([1], [16], 4, [])[1] == [Drafting(None, 1)]


def test_what_does_not_fit_into_memory_is_left_out_and_said() -> None:
    blocks = tasks([1, 4], [16], 8, [])
    kept, notes = within_memory(blocks, 1000, 30_000)
    assert all(one.batch == 1 for block in kept for one in block) and len(notes) == 1
    assert notes[0].startswith("A pass of 4 sequences at once behind 16 tokens was not measured")
    with pytest.raises(HeadwayError, match="smallest cache"):
        within_memory(blocks[:1], 1000, 100)


def test_trees_are_those_the_drafter_can_fill() -> None:
    heads = trees_for(random_medusa(TARGET, chain(1)))
    assert chain(1) in heads and max(shape.num_nodes for shape in heads) == 48
    assert [shape.num_nodes for shape in trees_for(NgramDrafter(NgramConfig()))] == [1, 4, 8]


def test_rounds_of_real_passes_and_steps_make_a_curve() -> None:
    drafter = random_medusa(TARGET, chain(1))
    blocks = tasks([1, 2], [8, 24], 5, [chain(1), chain(2)])
    bench = Bench(TARGET, drafter, [task for block in blocks for task in block])
    found, notes = scout(bench, blocks, seconds=1e9)
    assert notes == [] and set(found) == {task for block in blocks for task in block}
    again = {task: bench.time(task) for task in found}
    curve = curve_of([found, again], "heads", ["said"])
    assert {(one.rows, one.batch, one.context) for one in curve.passes} >= {(1, 1, 8), (5, 2, 24)}
    assert all(one.ms > 0 and one.repeats == 2 and one.low <= one.ms <= one.high for one in curve.passes)
    assert {one.nodes for one in curve.steps if one.batch == 1} == {0, 1, 2} and curve.notes == ("said",)
    assert all(one.draft_ms > 0 for one in curve.steps if one.nodes)


def test_what_there_is_no_time_for_is_left_out_and_said() -> None:
    blocks = tasks([1, 2], [8, 24], 3, [chain(1)])
    bench = Bench(TARGET, random_medusa(TARGET, chain(1)), [task for block in blocks for task in block])
    ticks = iter(range(0, 10_000, 10))
    found, notes = scout(bench, blocks, seconds=60, clock=lambda: float(next(ticks)))
    assert set(found) >= {*blocks[0], *blocks[1]} and len(notes) == len(blocks) - 3
    assert all(note.endswith("what is said of it is extrapolated.") for note in notes)
