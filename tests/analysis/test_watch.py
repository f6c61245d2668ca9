"""The watch over a drafter's acceptance: rules, what is refused, and how often it is wrong or late."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backend.analysis.watch import Baseline, Watch, WatchRules, baseline_of, requests_needed, watched


def lengths(rng: np.random.Generator, count: int, kept: float = 1.0) -> list[float]:
    """Requests of some 20 to 130 tokens whose difficulty varies; `kept`: part of the acceptance length that is left."""
    difficulty, tokens = rng.beta(4, 6, count), rng.integers(20, 129, count)
    steps = np.ceil(tokens / (1 + 2 * difficulty)).astype(int)
    drafted = 1 + rng.binomial(2 * steps, difficulty) / steps
    return np.maximum(1.0, kept * drafted).tolist()


def test_a_lasting_drop_raises_each_rule_once() -> None:
    rng = np.random.default_rng(0)
    base = baseline_of(lengths(rng, 400))
    rules = WatchRules(floor=1.5)
    alarms = watched(lengths(rng, 1000, kept=0.75), base, rules)
    assert [alarm.rule for alarm in alarms] == ["cusum", "drop", "floor"]
    assert alarms[0].at < 100 and alarms[1].at == 200 and alarms[2].recent < 1.5
    assert watched(lengths(rng, 1000), base, rules) == []


def test_cusum_is_the_log_likelihood_ratio_of_two_normal_laws() -> None:
    base = Baseline(2.0, 0.5, 10**12)
    watch = Watch(base, WatchRules(max_drop=0.1, threshold=1e9))
    total = 0.0
    for length in (1.5, 2.4, 1.1, 3.0, 1.9):
        before, after = (-((length - mean) ** 2) / (2 * 0.5**2) for mean in (2.0, 1.8))
        total = max(0.0, total + after - before)
        watch.add(length)
        assert watch.cusum == pytest.approx(total, rel=1e-5)


def test_one_wild_request_is_no_alarm() -> None:
    watch = Watch(Baseline(3.0, 0.2, 1000))
    assert watch.add(1.0) == [] and watch.cusum < watch.rules.threshold


def test_after_a_reset_it_begins_again() -> None:
    rng = np.random.default_rng(1)
    watch = Watch(baseline_of(lengths(rng, 400)))
    low = lengths(rng, 150, kept=0.7)
    assert [alarm for length in low for alarm in watch.add(length)]
    watch.reset()
    assert watch.seen == 0 and [alarm for length in low for alarm in watch.add(length)]


def test_what_is_no_length_and_what_is_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 50 requests, got 3"):
        baseline_of([1.0, 2.0, 3.0])
    for wrong in (math.nan, math.inf, 0.5, -1.0):
        with pytest.raises(ValueError, match="from 1 up"):
            baseline_of([1.5] * 60 + [wrong])
        with pytest.raises(ValueError, match="from 1 up"):
            Watch(Baseline(2.0, 0.5, 100)).add(wrong)
    for changes in ({"max_drop": 0.0}, {"max_drop": 1.0}, {"window": 1}, {"threshold": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            WatchRules(**changes)


@pytest.mark.slow_stat
def test_one_history_in_a_hundred_is_a_false_alarm_and_a_tenth_less_is_found_within_200_requests() -> None:
    """1,000 histories at default settings: 300 requests make the baseline, then 1,000 come; in as many others their
    acceptance length is a tenth lower from the first on.
    """
    rng = np.random.default_rng(3)
    false, found, late = 0, 0, []
    for _ in range(1000):
        base = baseline_of(lengths(rng, 300))
        false += bool(watched(lengths(rng, 1000), base))
        alarms = watched(lengths(rng, 200, kept=0.9), base)
        found += bool(alarms)
        late += [alarm.at for alarm in alarms[:1]]
    assert false <= 10 and found >= 950, (false, found)
    assert float(np.median(late)) < 120 and requests_needed(base, WatchRules()) < 120
