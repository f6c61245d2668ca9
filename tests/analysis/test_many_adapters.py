"""Which adapter earns its own heads, how many prompts are missing, and what a mix of traffic gains."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest

from backend.analysis.adapter_traffic import (
    EARNED,
    STRATEGIES,
    Times,
    mix_sentence,
    strategies,
    times_from_dict,
    times_of,
    times_to_dict,
    traffic_shares,
)
from backend.analysis.bootstrap import Interval
from backend.analysis.counts import PromptCounts
from backend.analysis.many_adapters import (
    DRAFTERS,
    MIXTURE,
    MOST_MORE,
    NGRAM,
    OWN,
    PLAIN,
    SHARED,
    Cost,
    judged,
    megabytes_in_words,
    minutes_in_words,
    needed_prompts,
)
from backend.errors import HeadwayError
from tests.analysis.made_up import answer

COST = Cost(3.2, 41.0)
Answers = dict[str, PromptCounts]


def answers(seed: int, prompts: int = 30, depth: int = 3, speed: float = 1.0) -> Answers:
    rng = random.Random(seed)
    return {f"p{number}": answer(rng, f"p{number}", "any", depth, speed) for number in range(prompts)}


def faster(own: Answers, times: float, noise: float = 0.0, seed: int = 0) -> Answers:
    """The same answers in less time; `noise`: how far single prompts stray from that."""
    rng = random.Random(seed)
    return {
        asked: replace(one, **{name: getattr(one, name) / times * rng.uniform(1 - noise, 1 + noise) for name in
                               ("draft_ms", "verify_ms", "other_ms")})
        for asked, one in own.items()
    }  # fmt: skip


def measured(own: float, noise: float = 0.02, prompts: int = 30, mixture: float = 1.0) -> dict[str, Answers]:
    """Own heads so many times as fast as the shared drafter."""
    shared = answers(1, prompts)
    return {
        SHARED: shared, OWN: faster(shared, own, noise), MIXTURE: faster(shared, mixture, noise, 1),
        NGRAM: answers(2, prompts, 2, 0.4), PLAIN: answers(3, prompts, 0),
    }  # fmt: skip


def test_a_clear_gain_earns_its_own_heads() -> None:
    found = judged("support", measured(1.3), 0.05, COST)
    assert (found.verdict, found.best, found.best_sure, found.missing) == ("earns", OWN, True, None)
    assert found.prompts == 30 and [row.drafter for row in found.rows] == list(DRAFTERS)
    rows = {row.drafter: row for row in found.rows}
    gain = rows[OWN].over_shared_interval
    assert gain is not None and gain.low > 0.25 and rows[OWN].over_shared == pytest.approx(0.3, abs=0.03)
    assert found.sentence.startswith("support earns its own heads: +")
    assert "for 3.2 min of training and 41 MB of memory." in found.sentence and "may do as well" not in found.sentence


def test_a_row_is_what_the_counts_say() -> None:
    given = measured(1.3)
    for row in judged("support", given, 0.05, COST).rows:
        own = given[row.drafter].values()
        steps, plain = sum(one.num_steps for one in own), given[PLAIN].values()
        assert row.acceptance_length == pytest.approx(1 + sum(one.num_accepted for one in own) / steps)
        speed = sum(one.num_tokens - 1 for one in own) / sum(one.decode_ms for one in own)
        slow = sum(one.num_tokens - 1 for one in plain) / sum(one.decode_ms for one in plain)
        assert row.tokens_per_s == pytest.approx(1000 * speed) and row.speedup == pytest.approx(speed / slow)
        if row.drafter != PLAIN:
            second = sum(one.accepted_per_depth[1] for one in own if len(one.accepted_per_depth) > 1)
            assert row.marginal[1] == pytest.approx(second / steps) and len(row.marginal) == len(row.conditional)
    assert row.marginal == () and row.speedup_interval is None  # plain decoding, the last one


def test_a_gain_below_the_border_does_not() -> None:
    found = judged("sql", measured(1.01), 0.05, COST)
    assert found.verdict == "does not" and "sql doesn't earn its own heads" in found.sentence
    assert "less than the 5 % that were asked for" in found.sentence
    assert judged("sql", measured(1.01), 0.0, COST).verdict != "does not"


def test_between_the_two_it_says_how_many_prompts_are_missing() -> None:
    found = judged("law", measured(1.3, noise=0.6, prompts=12), 0.05, COST)
    assert found.verdict == "too few" and found.missing
    assert f"about {found.missing:,} more held-out prompts would tell" in found.sentence
    few = judged("law", measured(1.5, prompts=3), 0.05, COST)
    assert few.verdict == "too few" and few.missing == 2 and "no interval yet" in few.sentence
    many = measured(1.3, noise=0.6, prompts=12 + 4 * found.missing)
    assert judged("law", many, 0.05, COST).verdict != "too few"


def test_what_is_simpler_and_as_good_is_said_too() -> None:
    as_good = judged("support", measured(1.3, noise=0.05, mixture=1.3), 0.05, COST)
    assert as_good.verdict == "earns" and "The mixture's drafter may do as well" in as_good.sentence
    slow = measured(1.3) | {PLAIN: answers(3, 30, 0, 40.0)}
    assert judged("support", slow, 0.05, COST).sentence.endswith(" Plain decoding is fastest there.")


def test_without_a_mixture_and_without_steps() -> None:
    without = {name: own for name, own in measured(1.3).items() if name != MIXTURE}
    assert [row.drafter for row in judged("a", without, 0.05, COST).rows] == [SHARED, OWN, NGRAM, PLAIN]
    empty = {
        name: {asked: replace(one, num_tokens=1, num_steps=0, draft_ms=0.0, verify_ms=0.0, other_ms=0.0)
               for asked, one in own.items()}
        for name, own in without.items()
    }  # fmt: skip
    nothing = judged("a", empty, 0.05, COST)
    assert nothing.verdict == "too few" and nothing.best is None and "no answer was measured" in nothing.sentence
    with pytest.raises(ValueError, match="plain is missing"):
        judged("a", {SHARED: answers(1), OWN: answers(1)}, 0.05, COST)


@pytest.mark.parametrize(
    ("low", "high", "border", "prompts", "more"),
    [
        (0.0, 0.2, 0.05, 40, 120),  # the half width is twice the distance: four times as many
        (0.0, 0.2, 0.2, 40, 1),  # it touches the border
        (0.0, 0.1, 0.05, 40, None),  # the middle is the border
        (0.0, 0.10001, 0.05, 40, None),  # nobody would go on for that long
    ],
)
def test_prompts_that_are_missing(low: float, high: float, border: float, prompts: int, more: int | None) -> None:
    assert needed_prompts(Interval(low, high), border, prompts) == more
    assert more is None or more <= MOST_MORE


def made(speeds: dict[str, float], tokens: int = 100, prompts: int = 10) -> dict[str, Times]:
    """Every prompt has as many tokens, written at these tokens a second."""
    return {
        drafter: Times((tokens,) * prompts, (1000 * tokens / speed,) * prompts) for drafter, speed in speeds.items()
    }


SLOW = {SHARED: 20.0, OWN: 40.0, MIXTURE: 30.0, NGRAM: 12.0, PLAIN: 10.0}
QUICK = {SHARED: 100.0, OWN: 101.0, MIXTURE: 80.0, NGRAM: 60.0, PLAIN: 50.0}


def test_time_per_token_is_what_adds() -> None:
    times = {"slow": made(SLOW), "quick": made(QUICK)}
    own = {"slow": Cost(2.0, 10.0), "quick": Cost(3.0, 20.0)}
    joint = {SHARED: Cost(None, 5.0), MIXTURE: Cost(4.0, 6.0)}
    shares = traffic_shares({"slow": 1, "quick": 3}, ["slow", "quick"])
    found = {one.strategy: one for one in strategies(times, shares, ["slow"], own, joint)}
    assert list(found) == list(STRATEGIES)
    assert found[SHARED].tokens_per_s == pytest.approx(1 / (0.25 / 20 + 0.75 / 100))
    assert found[EARNED].tokens_per_s == pytest.approx(1 / (0.25 / 40 + 0.75 / 100)) and found[EARNED].own == ("slow",)
    assert found[OWN].over_plain == pytest.approx((0.25 / 10 + 0.75 / 50) / (0.25 / 40 + 0.75 / 101))
    assert found[EARNED].over_shared == pytest.approx((0.25 / 20 + 0.75 / 100) / (0.25 / 40 + 0.75 / 100) - 1)
    assert found[SHARED].over_shared is None and found[PLAIN].over_plain_interval is None
    assert (found[OWN].megabytes, found[OWN].minutes) == (30.0, 5.0)
    assert (found[EARNED].megabytes, found[EARNED].minutes) == (15.0, None)  # nobody knows what the shared one took
    assert (found[NGRAM].megabytes, found[NGRAM].minutes) == (0.0, 0.0)
    words = mix_sentence(list(found.values()))
    assert words.startswith("For this traffic own heads for every adapter give most:") and "30 MB" in words


def test_an_adapter_without_traffic_costs_and_counts_nothing() -> None:
    times = {"slow": made(SLOW), "quick": made(QUICK)}
    own = dict.fromkeys(times, Cost(2.0, 10.0))
    shares = traffic_shares({"quick": 9}, list(times))
    found = {one.strategy: one for one in strategies(times, shares, ["slow"], own, {SHARED: Cost(1.0, 5.0)})}
    assert found[OWN].megabytes == 10.0 and found[EARNED].own == ()
    assert found[EARNED].tokens_per_s == pytest.approx(found[SHARED].tokens_per_s) == pytest.approx(100.0)
    assert "which chance could explain" not in mix_sentence([found[SHARED]])
    with pytest.raises(ValueError, match="traffic for quick"):
        strategies({"slow": made(SLOW)}, shares, [], own, {})
    without = {name: {one: t for one, t in own.items() if one != MIXTURE} for name, own in times.items()}
    assert MIXTURE not in {one.strategy for one in strategies(without, shares, [], own, {SHARED: COST})}


def test_intervals_of_a_mix_hold_every_adapters_prompts_apart() -> None:
    given = measured(1.3, noise=0.3)
    times = {name: times_of(given) for name in ("a", "b")}
    assert {name: times_from_dict(times_to_dict(one)) for name, one in times.items()} == times
    shares = traffic_shares({}, ["a", "b"])
    assert shares == {"a": 0.5, "b": 0.5}
    both = {s.strategy: s for s in strategies(times, shares, ["a"], dict.fromkeys("ab", COST), {SHARED: COST})}
    alone = traffic_shares({"a": 1}, ["a", "b"])
    one = {s.strategy: s for s in strategies(times, alone, ["a"], dict.fromkeys("ab", COST), {SHARED: COST})}
    assert both[OWN].tokens_per_s == pytest.approx(one[OWN].tokens_per_s)
    narrow, wide = both[OWN].interval, one[OWN].interval
    assert narrow and wide and narrow.high - narrow.low < 0.9 * (wide.high - wide.low)  # two samples know more than one
    assert narrow.low < both[OWN].tokens_per_s < narrow.high


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"c": 1.0}, "names c"),
        ({"a": 0.0}, "adds up to nothing"),
        ({"a": -1.0}, "can't be -1"),
        ({"a": inf}, "can't be"),
    ],
)
def test_traffic_that_is_none_is_one_sentence(asked: dict[str, float], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        traffic_shares(asked, ["a", "b"])


def test_costs_in_words() -> None:
    assert [minutes_in_words(one) for one in (0.2, 3.24)] == ["12 s", "3.2 min"]
    assert [megabytes_in_words(one) for one in (0.052, 41.3, 5120.0)] == ["0.052 MB", "41 MB", "5,120 MB"]
