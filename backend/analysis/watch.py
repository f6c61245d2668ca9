"""Whether a drafter still fits: acceptance of request after request against what it was, by three rules.

- *drop*: the last requests accept more than `max_drop` less than the baseline, beyond chance.
- *floor*: they accept less than an absolute length, beyond chance.
- *cusum*: the cumulated log-likelihood ratio of "a drop of `max_drop`" against "as before" (Page, "Continuous
  inspection schemes", Biometrika 1954), which finds a small lasting drop soonest.

The baseline is estimated from requests itself, so what it is not sure of is given to it: its mean is lowered by one
standard error. Requests are independent; steps of one request are not, so a request counts once. Knows numbers only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Literal

RuleName = Literal["drop", "floor", "cusum"]
FEWEST = 50  #: requests below which there is no baseline
OUTLIER = 4.0  #: standard deviations that a single request may count


@dataclass(frozen=True)
class WatchRules:
    """What raises an alarm.

    Args:
        max_drop: part of the baseline that may be lost.
        floor: acceptance length below which it is too low whatever it was; None: no such rule.
        window: requests that drop and floor look at.
        surely: standard errors by which they have to lie below.
        threshold: log-likelihood ratio at which cusum raises an alarm.
    """

    max_drop: float = 0.1
    floor: float | None = None
    window: int = 200
    surely: float = 4.0
    threshold: float = 12.0

    def __post_init__(self) -> None:
        if not 0 < self.max_drop < 1:
            raise ValueError(f"max_drop must be between 0 and 1, got {self.max_drop}")
        if self.window < 2 or self.surely <= 0 or self.threshold <= 0:
            raise ValueError("window must be at least 2, surely and threshold above 0")


@dataclass(frozen=True)
class Baseline:
    """Acceptance lengths of requests from when all was well: mean, spread (standard deviation) and number."""

    mean: float
    spread: float
    requests: int

    @property
    def cautious(self) -> float:
        """The mean less one standard error of it."""
        return self.mean - self.spread / math.sqrt(self.requests)


def baseline_of(lengths: Sequence[float]) -> Baseline:
    """Raises ValueError for fewer than FEWEST requests, or lengths that are no numbers or below 1."""
    if len(lengths) < FEWEST:
        raise ValueError(f"a baseline needs {FEWEST} requests, got {len(lengths)}")
    if not all(math.isfinite(one) and one >= 1 for one in lengths):
        raise ValueError("acceptance lengths are numbers from 1 up")
    return Baseline(fmean(lengths), max(stdev(lengths), 1e-6), len(lengths))


@dataclass(frozen=True)
class Alarm:
    """`at`: which request it was, from 1; `value` is what crossed `limit`; `recent`: mean length then."""

    rule: RuleName
    at: int
    value: float
    limit: float
    recent: float


@dataclass
class Watch:
    """Fed with one acceptance length a request; raises each rule's alarm once until `reset`."""

    baseline: Baseline
    rules: WatchRules = field(default_factory=WatchRules)
    seen: int = 0
    cusum: float = 0.0
    raised: set[RuleName] = field(default_factory=set)
    _recent: deque[float] = field(default_factory=deque)
    _sums: list[float] = field(default_factory=lambda: [0.0, 0.0])  # of the recent lengths and of their squares

    def add(self, length: float) -> list[Alarm]:
        """The alarms that this request raises. Raises ValueError for what is no length."""
        if not math.isfinite(length) or length < 1:
            raise ValueError(f"an acceptance length is a number from 1 up, got {length}")
        self.seen += 1
        self._recent.append(length)
        gone = self._recent.popleft() if len(self._recent) > self.rules.window else 0.0
        self._sums = [self._sums[0] + length - gone, self._sums[1] + length * length - gone * gone]
        self._cumulate(length)
        found = [alarm for alarm in self._alarms() if alarm.rule not in self.raised]
        self.raised |= {alarm.rule for alarm in found}
        return found

    @property
    def recent(self) -> float | None:
        """Mean length of the last requests, as many as `window`; None before there is one."""
        return self._sums[0] / len(self._recent) if self._recent else None

    def state(self) -> dict[str, Any]:
        """All that the next request depends on, as JSON."""
        return {
            "seen": self.seen, "cusum": self.cusum, "raised": sorted(self.raised), "recent": list(self._recent),
            "sums": list(self._sums),
        }  # fmt: skip

    @classmethod
    def from_state(cls, baseline: Baseline, rules: WatchRules, state: Mapping[str, Any]) -> Watch:
        """Go on from what `state` gave."""
        return cls(
            baseline, rules, state["seen"], state["cusum"], set(state["raised"]), deque(state["recent"]),
            list(state["sums"]),
        )  # fmt: skip

    def reset(self) -> None:
        """Begin again, with the same baseline."""
        self.seen, self.cusum = 0, 0.0
        self.raised.clear()
        self._recent.clear()
        self._sums = [0.0, 0.0]

    def _cumulate(self, length: float) -> None:
        base, spread = self.baseline.cautious, self.baseline.spread
        lost = self.rules.max_drop * self.baseline.mean / spread  # the drop in standard deviations
        away = max(-OUTLIER, min(OUTLIER, (length - base) / spread))
        self.cusum = max(0.0, self.cusum - lost * away - lost * lost / 2)

    def _alarms(self) -> Iterable[Alarm]:
        rules, count = self.rules, len(self._recent)
        recent = self._sums[0] / count
        if self.cusum > rules.threshold:
            yield Alarm("cusum", self.seen, self.cusum, rules.threshold, recent)
        if count < rules.window:
            return
        spread = math.sqrt(max(self._sums[1] - count * recent * recent, 0.0) / (count - 1))
        sure = rules.surely * spread / math.sqrt(count)
        if recent + sure < (limit := (1 - rules.max_drop) * self.baseline.cautious):
            yield Alarm("drop", self.seen, recent, limit, recent)
        if rules.floor is not None and recent + sure < rules.floor:
            yield Alarm("floor", self.seen, recent, rules.floor, recent)


def watched(lengths: Iterable[float], baseline: Baseline, rules: WatchRules | None = None) -> list[Alarm]:
    """All alarms of a history, in the order they are raised."""
    watch = Watch(baseline, rules or WatchRules())
    return [alarm for length in lengths for alarm in watch.add(length)]


def requests_needed(baseline: Baseline, rules: WatchRules) -> int:
    """About how many requests after a drop of `max_drop` cusum needs: threshold over what each tells on average."""
    lost = rules.max_drop * baseline.mean / baseline.spread
    shift = (baseline.cautious - (1 - rules.max_drop) * baseline.mean) / baseline.spread
    told = lost * shift - lost * lost / 2
    return math.ceil(rules.threshold / told) if told > 0 else 10**9
