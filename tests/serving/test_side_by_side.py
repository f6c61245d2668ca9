"""Two sides of the same answers: rates, equality, and the likely cause where they differ."""

from __future__ import annotations

import pytest

from backend.serving.side_by_side import Drafted, Pair, causes, compare, context_class, from_histogram


def pair(own: tuple[int, ...], served: tuple[int, ...], steps: int = 100, **more: object) -> Pair:
    tokens = (1, 2, 3)
    made = {"id": "a", "category": "qa", "prompt_tokens": 50, "plain": tokens} | more
    return Pair(own=Drafted(steps, own, tokens), served=Drafted(steps, served, tokens), **made)  # type: ignore[arg-type]


def test_a_histogram_of_steps_becomes_counts_by_position() -> None:
    assert from_histogram([5, 3, 2, 1]) == (6, 3, 1)
    assert from_histogram({"0": 5, "3": 2}) == (2, 2, 2)
    assert from_histogram([]) == ()


def test_sides_that_agree() -> None:
    found = compare([pair((60, 30), (60, 31)), pair((40, 10), (40, 10), category="math", prompt_tokens=300)])
    assert [round(row["own"], 3) for row in found["positions"]] == [0.5, 0.2]
    assert found["largest_difference"] == pytest.approx(0.005)
    assert found["causes"] == ["Both sides agree."]
    assert [(group["label"], group["prompts"]) for group in found["domains"]] == [("math", 1), ("qa", 1)]
    assert [group["label"] for group in found["contexts"]] == ["up to 64", "up to 512"]
    assert found["equal"]["with_and_without"] == {"same": 2, "of": 2}


@pytest.mark.parametrize(
    ("own", "served", "word"),
    [
        ((60, 30), (0, 0), "vocabulary"),
        ((60, 30), (50, 20), "one layer off"),
        ((60, 30), (60, 20), "another order"),
        ((60, 30), (70, 40), "did not see the same"),
    ],
)
def test_the_likely_cause(own: tuple[int, ...], served: tuple[int, ...], word: str) -> None:
    assert any(word in cause for cause in compare([pair(own, served)])["causes"])


def test_what_the_check_found_comes_first_and_texts_that_differ_are_told() -> None:
    other = Pair("b", "qa", 50, Drafted(10, (5,), (1, 2)), Drafted(10, (5,), (1, 9)), (1, 2))
    found = compare([other], ["fc.bias is there. vLLM ignores it."])
    assert "fc.bias" in found["causes"][0]
    assert found["equal"]["differ"] == [{"id": "b", "at": 1}]
    assert any("change when the server drafts" in cause for cause in found["causes"])
    assert any("differ between Headway" in cause for cause in found["causes"])


def test_classes_of_prompt_lengths_and_nothing_at_all() -> None:
    assert context_class(64) == "up to 64" and context_class(65) == "up to 128"
    assert context_class(5000) == "more than 2048"
    empty = compare([])
    assert empty["positions"] == [] and "nothing to compare" in empty["causes"][0]
    assert causes([], empty["equal"], [])
