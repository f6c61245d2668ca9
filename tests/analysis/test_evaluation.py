"""The table of an evaluation against slow, obvious counting, its exact invariants, and what it refuses to claim."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from backend.analysis.bootstrap import weights
from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import MEAN, PLAIN, Evaluation, Part, Row, part_from_dict, table
from tests.analysis.made_up import answer, measured_again, parts


def answers_of(found: list[Part], row: Row, contender: str) -> list[PromptCounts]:
    """What a row is about, by hand."""
    chosen = []
    for part in found:
        if (part.set, part.temperature, part.batch, part.contender) == (row.set, row.temperature, row.batch, contender):
            chosen += [one for one in part.answers if row.category in (None, one.category)]
    return sorted(chosen, key=lambda one: one.prompt)


def per_s(answers: list[PromptCounts], times: list[float]) -> float:
    tokens = sum(n * (one.num_tokens - 1) for n, one in zip(times, answers, strict=True))
    return 1000 * tokens / sum(n * one.decode_ms for n, one in zip(times, answers, strict=True))


def length(answers: list[PromptCounts], times: list[float]) -> float:
    steps = sum(n * one.num_steps for n, one in zip(times, answers, strict=True))
    return 1 + sum(n * one.num_accepted for n, one in zip(times, answers, strict=True)) / steps


def middle(values: list[float]) -> tuple[float, float]:
    """The 2.5th and the 97.5th of a hundred parts, between neighbours in proportion."""
    ordered = sorted(values)

    def at(part: float) -> float:
        place = part * (len(ordered) - 1)
        low = int(place)
        return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])

    return at(0.025), at(0.975)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_row_equals_a_slow_count(seed: int) -> None:
    found = parts(seed)
    rows = [row for row in table(found) if row.set != MEAN]
    assert len(rows) == 2 * 2 * 3 * 3  # sets, temperatures, contenders; the whole set and two domains
    for row in rows:
        own, plain = answers_of(found, row, row.contender), answers_of(found, row, PLAIN)
        ones = [1.0] * len(own)
        steps = sum(one.num_steps for one in own)
        assert row.num_prompts == row.num_paired == len(own)
        assert row.acceptance_length == pytest.approx(length(own, ones))
        assert row.tokens_per_s == pytest.approx(per_s(own, ones))
        assert row.speedup == pytest.approx(per_s(own, ones) / per_s(plain, ones))
        for depth, marginal in enumerate(row.marginal, 1):
            accepted = sum(one.accepted_per_depth[depth - 1] for one in own if len(one.accepted_per_depth) >= depth)
            drafted = sum(one.drafted_per_depth[depth - 1] for one in own if len(one.drafted_per_depth) >= depth)
            assert marginal == pytest.approx(accepted / steps)
            assert row.conditional[depth - 1] == (pytest.approx(accepted / drafted) if drafted else None)
        unit = sum(one.decode_ms for one in plain) / sum(one.num_steps for one in plain)
        assert row.verify == pytest.approx(sum(one.verify_ms for one in own) / steps / unit)
        assert row.draft == pytest.approx(sum(one.draft_ms for one in own) / steps / unit)
        assert row.overhead == pytest.approx(sum(one.other_ms for one in own) / steps / unit)
        assert row.repeated == pytest.approx(sum(o.num_repeated for o in own) / sum(o.num_tokens for o in own))
        same = sum(a.digest == b.digest for a, b in zip(own, plain, strict=True))
        assert row.num_same == (same if row.temperature == 0 else None)


def test_intervals_equal_slow_resampling_of_whole_prompts() -> None:
    found = parts(3)
    row = next(r for r in table(found) if r.contender == "good" and r.category is None and r.temperature == 1)
    own, plain = answers_of(found, row, "good"), answers_of(found, row, PLAIN)
    draws = weights(len(own), row.set).tolist()
    low, high = middle([per_s(own, times) / per_s(plain, times) for times in draws])
    assert row.speedup_interval is not None and row.acceptance_interval is not None
    assert [row.speedup_interval.low, row.speedup_interval.high] == pytest.approx([low, high])
    low, high = middle([length(own, times) for times in draws])
    assert [row.acceptance_interval.low, row.acceptance_interval.high] == pytest.approx([low, high])
    assert row.speedup_interval.low < (row.speedup or 0) < row.speedup_interval.high


def test_counts_add_up() -> None:
    for row in table(parts(4)):
        assert row.num_tokens == row.num_prompts + row.num_steps + row.num_accepted - row.num_cut
        assert sum(row.accepted_per_depth) == row.num_accepted
        assert all(a <= d for a, d in zip(row.accepted_per_depth, row.drafted_per_depth, strict=True))
        before = (row.num_steps, *row.accepted_per_depth)
        assert all(drafted <= accepted for drafted, accepted in zip(row.drafted_per_depth, before, strict=False))
        assert row.acceptance_length == pytest.approx(1 + sum(row.marginal))
        # What was accepted and then cut is the only difference between the measured speedup and its terms.
        assert row.speedup is not None and row.explained is not None
        kept = (row.num_steps + row.num_accepted - row.num_cut) / (row.num_steps + row.num_accepted)
        if row.set != MEAN:
            assert row.speedup == pytest.approx(row.explained * kept)


def test_plain_decoding_is_its_own_measure() -> None:
    for row in table(parts(5)):
        if row.contender == PLAIN:
            assert row.speedup == row.acceptance_length == pytest.approx(1.0)
            assert row.speedup_interval is None and row.acceptance_interval is None
            assert (row.verify or 0) + (row.draft or 0) + (row.overhead or 0) == pytest.approx(1.0)


def test_means_are_unweighted_over_sets_and_counts_are_sums() -> None:
    rows = table(parts(6))
    mean = next(row for row in rows if row.set == MEAN and row.contender == "good" and row.temperature == 0)
    sets = [r for r in rows if r.set != MEAN and r.category is None and (r.contender, r.temperature) == ("good", 0)]
    assert mean.speedup == pytest.approx(sum(row.speedup or 0 for row in sets) / 2)
    assert mean.num_steps == sum(row.num_steps for row in sets)
    assert mean.accepted_per_depth[0] == sum(row.accepted_per_depth[0] for row in sets)
    assert mean.speedup_interval is not None and mean.speedup_interval.low < (mean.speedup or 0)


def test_the_order_of_parts_and_json_change_nothing() -> None:
    found = parts(7)
    expected = table(found)
    random.Random(1).shuffle(found)
    assert table(found) == expected
    again = [part_from_dict(part.to_dict()) for part in found]
    assert table(again) == expected and set(again) == set(found)


def test_a_part_that_comes_twice_counts_once_and_only_its_cell_changes() -> None:
    found, evaluation = parts(8), Evaluation()
    for number, part in enumerate(found):
        evaluation.add(str(number), part)
    assert evaluation.rows() == table(found)
    evaluation.add("0", measured_again(found[0]))
    assert evaluation.rows() == table([measured_again(found[0]), *found[1:]])


def test_only_prompts_that_plain_decoding_has_answered_are_compared() -> None:
    found = [part for part in parts(9) if part.set == "poems" and part.temperature == 0]
    late = [part for part in found if part.contender != PLAIN or part.answers[0].prompt < "q4"]
    row = next(row for row in table(late) if row.contender == "good")
    assert (row.num_prompts, row.num_paired, row.speedup_interval) == (9, 4, None)
    both = [part for part in late if part.answers[0].prompt < "q4"]
    assert row.speedup == next(r for r in table(both) if r.contender == "good").speedup
    none = next(row for row in table([part for part in found if part.contender == "good"]) if row.category is None)
    assert none.speedup is None and none.acceptance_length is not None and none.num_same == 0


def test_answers_without_a_step_are_no_figures() -> None:
    rng = random.Random(0)
    silent = replace(answer(rng, "q", "x", 2), num_steps=0, num_accepted=0, num_cut=0, num_tokens=1, draft_ms=0.0,
                     verify_ms=0.0, other_ms=0.0, row_ms=0.0, accepted_per_depth=(), drafted_per_depth=())  # fmt: skip
    for row in table([Part(name, "s", 0.0, 1, (silent,)) for name in (PLAIN, "good")]):
        assert row.speedup is None and row.acceptance_length is None and row.tokens_per_s is None
        assert row.end_to_end_tokens_per_s is not None and row.num_prompts == 1


def contest(make: Callable[[int], float], prompts: int = 40) -> dict[str, tuple[str, ...]]:
    """contender -> best, where "a" is make(prompt) times as fast as "b" and plain decoding."""
    base = answer(random.Random(2), "q", "x", 2)
    base = replace(base, num_steps=10, num_accepted=8, num_cut=0, num_tokens=19, verify_ms=90.0)
    found = []
    for number in range(prompts):
        for name, factor in ((PLAIN, 1.0), ("a", make(number)), ("b", 1.0)):
            one = replace(base, prompt=f"q{number}", verify_ms=base.verify_ms / factor)
            found.append(Part(name, "s", 0.0, 1, (one,)))
    return {row.contender: row.best for row in table(found)}


def test_only_a_difference_beyond_chance_is_marked() -> None:
    assert contest(lambda number: 1.1)["a"] == ("speedup",)
    assert contest(lambda number: 1.6 if number % 2 else 0.72) == {PLAIN: (), "a": (), "b": ()}
    assert contest(lambda number: 1.1, prompts=4)["a"] == ()  # too few to say
    assert contest(lambda number: 0.8)["a"] == ()  # slower than both, which are alike


def test_one_contended_part_marks_its_row_and_the_mean_but_no_other() -> None:
    clean = [replace(part, contended=False) for part in parts(10)]
    clean[0] = replace(clean[0], contended=True)
    hit = (clean[0].contender, clean[0].temperature)
    for row in table(clean):
        expected = (row.contender, row.temperature) == hit and row.set in (clean[0].set, MEAN)
        assert row.contended == expected


def test_counts_by_class_add_up_by_domain_and_are_missing_as_a_whole() -> None:
    rng = random.Random(4)
    made = [answer(rng, f"q{n}", "odd" if n % 2 else "even", 3) for n in range(6)]
    counted = [replace(one, tried_by_class=(0, n, 2), accepted_by_class=(0, n, 1)) for n, one in enumerate(made)]
    rows = {row.category: row for row in table([Part("good", "poems", 0.0, 1, tuple(counted))])}
    assert rows[None].tried_by_class == (0, 15, 12) and rows[None].accepted_by_class == (0, 15, 6)
    assert rows[None].by_class == (None, 1.0, 0.5)
    assert rows["odd"].tried_by_class == (0, 9, 6)
    older = [*counted[:5], made[5]]
    (row,) = [row for row in table([Part("good", "poems", 0.0, 1, tuple(older))]) if row.category is None]
    assert row.tried_by_class == row.by_class == ()
    sets = [Part("good", name, 0.0, 1, tuple(counted)) for name in ("poems", "proofs")]
    (mean,) = [row for row in table(sets) if row.set == MEAN]
    assert mean.tried_by_class == (0, 30, 24) and mean.by_class == (None, 1.0, 0.5)
