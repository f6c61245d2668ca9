"""The chooser's rules: what must and must never be recommended, and that every answer matters."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from backend.analysis.chooser import FAMILIES, PLAIN, Adapters, Quality, Situation, Weights, choose


def best(**answers: Any) -> str:
    return choose(Situation(**answers)).families[0].family


def points(family: str, **answers: Any) -> float:
    found = {one.family: one.points for one in choose(Situation(**answers)).families}
    return found.get(family, float("-inf"))


@pytest.mark.parametrize(
    ("answers", "family"),
    [
        ({}, "eagle3"),
        ({"weights": "closed"}, PLAIN),
        ({"adapters": "many"}, "ngram"),
        ({"fine_tunes": 12}, "medusa"),
        ({"temperature": 1.0, "quality": "drift"}, "medusa2"),
        ({"temperature": 1.0, "quality": "drift", "weights": "open"}, "eagle3"),
        ({"batch": 64}, "eagle3"),
    ],
)
def test_clear_situations_have_clear_answers(answers: dict[str, Any], family: str) -> None:
    assert best(**answers) == family


def every_situation() -> list[Situation]:
    return [
        Situation(*answers)  # type: ignore[arg-type]
        for answers in product(
            get_args(Weights), (0, 3, 20), get_args(Adapters), (1, 16, 256), (0.0, 0.3, 1.0), get_args(Quality)
        )
    ]


def test_nothing_is_recommended_that_is_not_allowed() -> None:
    for situation in every_situation():
        choice = choose(situation)
        named = [one.family for one in choice.families]
        assert named == [PLAIN] if situation.weights == "closed" else len(named) == 3
        assert len(set(named)) == len(named) and set(named) <= {PLAIN, *FAMILIES}
        if situation.weights != "own" or situation.quality == "exact":
            assert "medusa2" not in named  # it changes the target
        assert choice.rule == "greedy" if situation.temperature == 0 else choice.rule != "greedy"
        assert situation.quality == "drift" or choice.rule != "typical"
        assert all(one.reasons and one.reasons[0].speaks_for for one in choice.families if one.points > 0)
        ordered = [one.points for one in choice.families]
        assert ordered == sorted(ordered, reverse=True)


def test_each_answer_changes_what_is_said() -> None:
    base = Situation(weights="own", fine_tunes=0, adapters="none", batch=1, temperature=0.0, quality="exact")
    for change in (
        {"weights": "open"},
        {"fine_tunes": 20},
        {"adapters": "many"},
        {"batch": 256},
        {"temperature": 1.0},
        {"quality": "drift"},
    ):
        assert choose(Situation(**{**vars(base), **change})) != choose(base), change


def test_more_fine_tunes_never_speak_against_what_trains_fastest() -> None:
    found = [points("medusa", fine_tunes=number, quality="exact") for number in (2, 8, 30)]
    assert found == sorted(found)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"fine_tunes": -1}, {"temperature": -0.1}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="got"):
        Situation(**wrong)
