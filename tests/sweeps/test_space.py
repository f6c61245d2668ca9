"""Spaces as people type them: read, checked, drawn from, written back; and combinations that make no sense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import HeadwayError
from backend.sweeps.combine import Facts, impossible, meaningful
from backend.sweeps.knobs import DECODE_KNOBS
from backend.sweeps.space import Range, Values, as_data, as_text, dimensions, parse_values

EPSILON, TREE, BATCH = DECODE_KNOBS["epsilon"], DECODE_KNOBS["tree"], DECODE_KNOBS["batch"]


@pytest.mark.parametrize(
    ("knob", "text", "grid"),
    [
        ("tree", "chain-1, 2x2 ,[[0],[1],[0,0]]", ["chain-1", "2x2", "[[0],[1],[0,0]]"]),
        ("tree", '{"dynamic": {"depth": 3, "top_k": 2}}, 2x2', ['{"dynamic": {"depth": 3, "top_k": 2}}', "2x2"]),
        ("temperature", "0, .7,1", [0.0, 0.7, 1.0]),
        ("epsilon", "0.01 to 1 log 3 points", [0.01, 0.1, 1.0]),
        ("epsilon", "0 to 1", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("batch", "1 to 4 4 points", [1, 2, 3, 4]),
        ("batch", "1 to 3", [1, 2, 3]),
        ("sampled", "on, off", [True, False]),
        ("rule", "typical", ["typical"]),
    ],
)
def test_what_is_typed_is_what_a_grid_tries(knob: str, text: str, grid: list[object]) -> None:
    (one,) = dimensions({knob: text}, DECODE_KNOBS)
    assert one.grid() == grid
    assert parse_values(as_text(one.tried), one.knob) == one.tried
    assert dimensions({knob: as_data(one.tried)}, DECODE_KNOBS) == (one,)


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"tre": ["2x2"]}, "did you mean tree"),
        ({"temperature": "warm"}, "takes numbers with commas, or a range"),
        ({"temperature": [7]}, "must be 0 to 5, but it is 7"),
        ({"batch": [1.5]}, "whole numbers, not 1.5"),
        ({"epsilon": {"low": 0, "high": 1, "log": True}}, "starts above 0"),
        ({"epsilon": "0.3 to 0.1"}, "from less to more"),
        ({"tree": {"low": 1, "high": 2}}, "has no range"),
        ({"tree": []}, "has no values"),
        ({"tree": "2x2, 2x2"}, "twice"),
        ({"rule": "typcal"}, "one of rejection, typical, greedy"),
        ({"sampled": "perhaps"}, "on or off"),
        ({"epsilon": {"low": 0.1, "hgih": 1}}, "a range has low, high"),
        ({"epsilon": {"low": 0.1, "high": 1, "points": "many"}}, "points is a whole number"),
        ({"epsilon": {"low": 0.1, "high": 1, "points": 1}}, "points is a whole number"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(space: dict[str, object], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        dimensions(space, DECODE_KNOBS)


@given(st.floats(0.001, 0.5), st.floats(0.501, 1), st.booleans(), st.integers(0, 2**31))
def test_draws_stay_inside(low: float, high: float, log: bool, seed: int) -> None:
    (one,) = dimensions({"epsilon": {"low": low, "high": high, "log": log}}, DECODE_KNOBS)
    rng = np.random.default_rng(seed)
    assert all(low * 0.99999 <= float(one.drawn(rng)) <= high * 1.00001 for _ in range(20))


def test_whole_numbers_are_all_drawn_alike() -> None:
    (one,) = dimensions({"batch": "1 to 3"}, DECODE_KNOBS)
    rng = np.random.default_rng(0)
    counts = np.bincount([int(one.drawn(rng)) for _ in range(3000)], minlength=4)
    assert counts[0] == 0 and counts[1:].min() > 900


def test_values_keep_their_kind() -> None:
    assert isinstance(parse_values("1, 2", BATCH), Values)
    assert parse_values("0.1 to 0.2 log", EPSILON) == Range(low=0.1, high=0.2, log=True)
    assert [type(value) for value in dimensions({"sampled": [True]}, DECODE_KNOBS)[0].grid()] == [bool]


FACTS = Facts(num_prompts=4, draft_vocab={"heads": 3}, depth={"heads": 2})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"rule": "typical", "temperature": 0.0}, "at temperature 0 is the greedy rule"),
        ({"rule": "greedy", "temperature": 1.0}, "exact at temperature 0 only"),
        ({"batch": 5}, "there are 4"),
        ({"drafter": "heads", "tree": "4x1"}, "takes 4 guesses in one place, and only 3 tokens"),
        ({"drafter": "heads", "tree": "chain-3"}, "3 levels deep, and the heads guess 2"),
        ({"tree": "fir"}, "Unknown tree"),
        ({"tree": "4", "draft_vocab": 2}, "only 2 tokens can be drafted"),
    ],
)
def test_impossible_combinations_are_named(values: dict[str, object], sentence: str) -> None:
    assert sentence in str(impossible(values, FACTS))  # type: ignore[arg-type]


def test_possible_ones_are_not() -> None:
    assert impossible({"drafter": "heads", "tree": "chain-3", "max_depth": 2, "batch": 4}, FACTS) is None
    assert impossible({"drafter": "none", "tree": "4x4"}, FACTS) is None
    assert impossible({"drafter": "heads", "tree": "eagle2"}, FACTS) is None  # it grows; its drafter judges it
    assert impossible({"rule": "typical", "temperature": 0.7, "epsilon": 0.1}, FACTS) is None


def test_what_changes_nothing_is_left_out() -> None:
    exact = meaningful({"rule": "rejection", "temperature": 1.0, "epsilon": 0.1, "delta": 0.2})
    assert exact == meaningful({"rule": "rejection", "temperature": 1.0, "epsilon": 0.3})
    assert "epsilon" not in exact
    assert meaningful({"temperature": 0.0, "sampled": True}) == meaningful({"temperature": 0.0, "rule": "greedy"})
    assert meaningful({"drafter": "none", "tree": "2x2"}) == meaningful({"drafter": "none", "rule": "typical"})
    typical = meaningful({"rule": "typical", "temperature": 1.0, "epsilon": 0.1})
    assert typical["epsilon"] == 0.1 and typical["delta"] == 0.3
