"""Comparisons of runs: what is paired, that figures equal slow counts, splits, and what the sentence dares to say."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from backend.analysis.comparing import Answer, Comparison, Side, Where, compare
from backend.analysis.counts import PromptCounts
from backend.analysis.verdict import verdict
from tests.analysis.made_up import answer


def side(name: str, seed: int, prompts: int = 30, depth: int = 3, speed: float = 1.0, first: int = 0) -> Side:
    """Made-up answers to prompts first, first + 1, … at two temperatures."""
    rng = random.Random(seed)
    answers = {}
    for number in range(first, first + prompts):
        for temperature in (0.0, 1.0):
            own = answer(rng, f"q{number}", "odd" if number % 2 else "even", depth, speed)
            plain = answer(rng, f"q{number}", "odd" if number % 2 else "even", 0)
            answers[(f"asked {number}", temperature)] = Answer(own, temperature, plain)
    return Side(name, name, answers)


def better_than(one: Side, name: str, accepted: int, faster: float) -> Side:
    """The same answers with so many more accepted tokens each, in less time."""

    def improved(counts: PromptCounts) -> PromptCounts:
        more = replace(counts, num_accepted=counts.num_accepted + accepted * counts.num_steps)
        return replace(more, verify_ms=counts.verify_ms / faster, draft_ms=0.0, other_ms=counts.other_ms / faster)

    return Side(name, name, {key: replace(a, counts=improved(a.counts)) for key, a in one.answers.items()})


def sums(found: Comparison, which: int, keys: set[str]) -> list[PromptCounts]:
    answers = found.sides[which].answers
    return [one.counts for (asked, _), one in answers.items() if asked in keys]


def test_only_common_prompts_count_and_figures_equal_slow_counts() -> None:
    found = compare([side("A", 1, 30), side("B", 2, 30, first=10)], reference=1)
    keys = {f"asked {number}" for number in range(10, 30)}
    assert found.common == 20 and found.asked == (30, 30) and found.num_answers == 40
    lines = {line.name: line for line in found.lines}
    assert list(lines) == ["acceptance_length", "tokens_per_s", "speedup"]
    for which in (0, 1):
        counts = sums(found, which, keys)
        steps = sum(one.num_steps for one in counts)
        length = 1 + sum(one.num_accepted for one in counts) / steps
        assert lines["acceptance_length"].sides[which].value == pytest.approx(length)
        tokens, ms = sum(one.num_tokens - 1 for one in counts), sum(one.decode_ms for one in counts)
        assert lines["tokens_per_s"].sides[which].value == pytest.approx(1000 * tokens / ms)
        second = sum(one.accepted_per_depth[1] for one in counts if len(one.accepted_per_depth) > 1)
        assert found.depths[1].sides[which].value == pytest.approx(second / steps)
        assert sum(found.histograms[which]) == pytest.approx(1)
        assert sum(d * share for d, share in enumerate(found.histograms[which])) == pytest.approx(length - 1)
    assert lines["acceptance_length"].sides[1].against is None and lines["acceptance_length"].sides[0].against
    assert {point.asked for point in found.points} == keys and len(found.points) == 20


def test_a_speedup_is_over_the_plain_decoding_of_the_same_prompts() -> None:
    found = compare([side("A", 1), side("B", 2)])
    own, plain = [], []
    for one in found.sides[1].answers.values():
        assert one.plain is not None
        own.append(one.counts)
        plain.append(one.plain)
    per_s = [sum(a.num_tokens - 1 for a in some) / sum(a.decode_ms for a in some) for some in (own, plain)]
    assert found.lines[2].sides[1].value == pytest.approx(per_s[0] / per_s[1])
    without = replace(found.sides[0], answers={k: replace(a, plain=None) for k, a in found.sides[0].answers.items()})
    assert "speedup" not in {line.name for line in compare([without, found.sides[1]]).lines}


def test_splits_are_the_same_comparison_over_their_prompts() -> None:
    sides = [side("A", 1), side("B", 2)]
    found = compare(sides)
    for split in found.splits:
        where = Where(category=split.value) if split.by == "domain" else Where(temperature=float(split.value))
        again = compare(sides, 0, where)
        assert again.common == split.prompts
        for mine, theirs in zip(split.lines, again.lines, strict=True):
            assert [one.value for one in mine.sides] == pytest.approx([one.value for one in theirs.sides])
    assert [(one.by, one.value) for one in found.splits] == [
        ("domain", "even"), ("domain", "odd"), ("temperature", "0"), ("temperature", "1")
    ]  # fmt: skip


def test_sides_without_a_common_temperature_are_paired_by_prompt_and_say_so() -> None:
    cold, warm = side("A", 1), side("B", 2)
    cold = replace(cold, answers={key: one for key, one in cold.answers.items() if key[1] == 0})
    warm = replace(warm, answers={key: one for key, one in warm.answers.items() if key[1] == 1})
    found = compare([cold, warm])
    assert found.mixed_temperatures and found.common == 30
    assert not compare([cold, side("B", 2)]).mixed_temperatures


def test_the_better_side_is_named_only_where_chance_is_ruled_out() -> None:
    first = side("A", 1)
    said = verdict(compare([first, better_than(first, "B", 1, 1.5), better_than(first, "C", 0, 1.0)]))
    assert said.better == 1 and said.sentence.startswith("B is better on every count: it accepts more than ")
    assert "the next best" in said.sentence and said.sentence.endswith("on 30 common prompts.")
    same = verdict(compare([side("A", 1), side("B", 7)]))
    assert same.better is None and "chance can't be ruled out" in same.sentence


def test_sides_can_be_better_on_different_counts() -> None:
    first = side("A", 1)
    said = verdict(compare([first, better_than(first, "B", 1, 0.5)]))
    assert said.better is None
    assert said.sentence.startswith("B accepts more than A: ")
    assert "; A gains more over plain decoding than B: " in said.sentence


def test_speeds_of_different_machines_are_not_held_against_each_other() -> None:
    first = side("A", 1)
    bare = {key: replace(one, plain=None) for key, one in first.answers.items()}
    sides = [replace(first, answers=bare), better_than(replace(first, answers=bare), "B", 1, 2.0)]
    assert "is faster" in verdict(compare(sides)).sentence
    assert "faster" not in verdict(compare(sides), speeds_compare=False).sentence


def test_few_common_prompts_say_nothing_and_none_at_all_neither() -> None:
    said = verdict(compare([side("A", 1, 4), side("B", 2, 4)]))
    assert "4 prompts in common" in said.sentence and said.claims == ()
    none = compare([side("A", 1, 4), side("B", 2, 4, first=4)])
    assert none.common == 0 and none.lines == () and "no prompt in common" in verdict(none).sentence


def test_wanted_answers_are_tested_where_every_side_knows_them() -> None:
    first = side("A", 1, 60)

    def judged(one: Side, right: int) -> Side:
        answers = {
            key: replace(a, counts=replace(a.counts, right=int(a.counts.prompt[1:]) < right))
            for key, a in one.answers.items()
        }
        return replace(one, answers=answers)

    found = compare([judged(first, 20), judged(side("B", 2, 60), 40)])
    line = {one.name: one for one in found.lines}["right"]
    assert [one.value for one in line.sides] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    test = line.mcnemar[1]
    assert line.mcnemar[0] is None and test is not None and (test.only_first, test.only_second) == (0, 20)
    assert "B gives the wanted answer more often than A, 67 % against 33 % (p < 0.001)" in verdict(found).sentence


def test_what_cannot_be_compared_is_refused() -> None:
    one = side("A", 1, 2)
    for sides, reference in (([one], 0), ([one] * 7, 0), ([one, one], 2)):
        with pytest.raises(ValueError, match="two to six sides"):
            compare(sides, reference)


def test_kinds_of_tokens_are_a_split_where_every_side_has_counted_them() -> None:
    def counted(one: Side, name: str, right: int) -> Side:
        counts = {"tried_by_class": (0, 4, 6), "accepted_by_class": (0, 4, right)}
        return Side(name, name, {k: replace(a, counts=replace(a.counts, **counts)) for k, a in one.answers.items()})

    base = side("A", 1)
    found = compare([counted(base, "A", 2), counted(base, "B", 3)])
    kinds = {split.value: split for split in found.splits if split.by == "class"}
    assert list(kinds) == ["format", "content"]  # no special token was drafted
    (line,) = kinds["content"].lines
    assert [one.value for one in line.sides] == [pytest.approx(2 / 6), pytest.approx(3 / 6)]
    assert line.name == "acceptance_by_class" and kinds["content"].prompts == 30
    assert line.sides[1].against is not None and line.sides[1].against.value == pytest.approx(1 / 6)
    assert not [split for split in compare([counted(base, "A", 2), base]).splits if split.by == "class"]
