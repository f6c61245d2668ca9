"""The draft-vocabulary curve against counting one token after another."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from backend.analysis.draft_vocab import EVERYTHING, VocabularyCurve, sizes_up_to, token_order

VOCABULARY = 200


@dataclass(frozen=True)
class Told:
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    category: str = "none"


def some_answers(seed: int) -> list[Told]:
    rng = random.Random(seed)
    weights = [1 / (1 + token) for token in range(VOCABULARY)]
    return [
        Told(
            tuple(rng.choices(range(VOCABULARY), weights, k=3)),
            tuple(rng.choices(range(VOCABULARY), weights, k=rng.randint(1, 40))),
            rng.choice(["code", "math"]),
        )
        for _ in range(30)
    ]


def slow_ceiling(answer: Told, known: set[int], depth: int) -> tuple[int, int]:
    """(steps, accepted) of a drafter that is right wherever it can be, one step after another."""
    steps = accepted = 0
    place = 1
    while True:
        run = 0
        while run < depth and place + run < len(answer.answer_ids) and answer.answer_ids[place + run] in known:
            run += 1
        if place + run >= len(answer.answer_ids):  # no token is left for the bonus: the step is cut short
            return steps, accepted
        steps, accepted, place = steps + 1, accepted + run, place + run + 1


@pytest.mark.parametrize("size", [1, 5, 40, 199, VOCABULARY])
def test_coverage_and_ceiling_are_those_of_counting_step_by_step(size: int) -> None:
    order, answers = token_order(some_answers(0), VOCABULARY), some_answers(1)
    curve, known, depths = VocabularyCurve(order, answers), set(order[:size]), [1, 2, 5]
    for domain in ("all", "code", "math"):
        here = [answer for answer in answers if domain in (EVERYTHING, answer.category)]
        point = curve.point(size, domain, depths)
        tokens = [token for answer in here for token in answer.answer_ids]
        assert (point.tokens, point.covered) == (len(tokens), sum(token in known for token in tokens))
        for depth, ceiling in zip(depths, point.ceilings, strict=True):
            slow = [slow_ceiling(answer, known, depth) for answer in here]
            assert (ceiling.num_steps, ceiling.num_accepted) == (sum(s for s, _ in slow), sum(a for _, a in slow))
            if size == VOCABULARY:
                assert ceiling.acceptance_length == depth + 1


def test_the_order_is_forced_tokens_then_answers_then_prompts_then_number() -> None:
    told = [Told((7, 7, 5), (3, 3, 4)), Told((5,), (4, 3))]
    assert token_order(told, 9, always=[8])[:6] == [8, 3, 4, 5, 7, 0]


def test_the_smallest_size_for_a_coverage() -> None:
    answers = some_answers(2)
    curve = VocabularyCurve(token_order(answers, VOCABULARY), answers)
    for coverage in (0.5, 0.9):
        size = curve.size_for(coverage)
        assert size % 64 == 0 and curve.point(size).coverage >= coverage
        assert size == 64 or curve.point(size - 64).coverage < coverage
    assert curve.size_for(1.0, "math") <= VOCABULARY


def test_sizes_of_a_curve_end_with_the_whole_vocabulary() -> None:
    assert sizes_up_to(1000) == [256, 384, 512, 768, 1000]
    assert sizes_up_to(100) == [100]


def test_sizes_out_of_bounds_are_refused() -> None:
    curve = VocabularyCurve(range(10), some_answers(0)[:0])
    with pytest.raises(ValueError, match="size"):
        curve.point(11)
    with pytest.raises(ValueError, match="coverage"):
        curve.size_for(0.0)
