"""Requests of several versions, drafters and domains, each watched by itself: what a drafter accepted at first is its
baseline, whatever version it meets later.

So old heads on a new fine-tune are held against what they were on the one they were made for, and heads trained anew
begin a baseline of their own. Every domain is watched, and all together (domain ""). Knows numbers and names; nothing
of where requests come from or whom an alarm is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from backend.analysis.watch import FEWEST, Alarm, Baseline, Watch, WatchRules, baseline_of

ALL = ""  #: the domain that every request belongs to
MOST_SERIES = 2000  #: names come from outside; more are not kept


@dataclass(frozen=True)
class Request:
    """One answer as it was served: which version wrote it with which drafter, and its acceptance length."""

    version: str
    drafter: str
    domain: str
    length: float


@dataclass(frozen=True)
class Raised:
    """An alarm and whose it is. `baseline`: mean acceptance length it is held against, of `baseline_version`."""

    version: str
    drafter: str
    domain: str
    baseline: float
    baseline_version: str
    alarm: Alarm

    def to_dict(self) -> dict[str, Any]:
        return {**{name: value for name, value in asdict(self).items() if name != "alarm"}, **asdict(self.alarm)}


def request_from(row: Any) -> Request:
    """From a JSON object: {version, drafter, domain?, acceptance_length} or, for the last, {tokens, steps}: tokens that
    the steps gave, the target's own counted. Raises ValueError with what is wrong.
    """
    if not isinstance(row, Mapping):
        raise ValueError("it is no JSON object")
    names = {}
    for name in ("version", "drafter", "domain"):
        value = row.get(name, ALL if name == "domain" else None)
        if not isinstance(value, str) or len(value) > 200 or (not value and name != "domain"):
            raise ValueError(f"{name} must be a text of at most 200 letters")
        names[name] = value
    length = row.get("acceptance_length")
    if length is None and "tokens" in row and "steps" in row:
        tokens, steps = _number(row, "tokens"), _number(row, "steps")
        if steps < 1:
            raise ValueError("steps must be at least 1")
        length = tokens / steps
    elif length is not None:
        length = _number(row, "acceptance_length")
    else:
        raise ValueError("acceptance_length, or tokens and steps, is missing")
    if not 1 <= length <= 1000:
        raise ValueError(f"an acceptance length lies between 1 and 1000, not at {length:g}")
    return Request(**names, length=length)


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number")
    return float(value)


@dataclass
class _Drafter:
    """One drafter in one domain: what it was at first, and how it does with each version since."""

    first_version: str
    lengths: list[float] = field(default_factory=list)  # until there is a baseline
    baseline: Baseline | None = None
    watches: dict[str, Watch] = field(default_factory=dict)  # by version


class WatchedSeries:
    """All series. `fewest`: requests that make a baseline. Raises ValueError for fewer than a baseline needs."""

    def __init__(self, rules: WatchRules, fewest: int = 2 * FEWEST) -> None:
        if fewest < FEWEST:
            raise ValueError(f"a baseline needs {FEWEST} requests at least, not {fewest}")
        self._rules, self._fewest = rules, fewest
        self._drafters: dict[tuple[str, str], _Drafter] = {}
        self.left_out = 0  #: requests of names beyond MOST_SERIES

    def add(self, request: Request) -> list[Raised]:
        """The alarms that this request raises."""
        found: list[Raised] = []
        for domain in dict.fromkeys((ALL, request.domain)):
            key = (request.drafter, domain)
            if key not in self._drafters and len(self._drafters) >= MOST_SERIES:
                self.left_out += 1
                continue
            drafter = self._drafters.setdefault(key, _Drafter(request.version))
            found += self._added(drafter, request, domain)
        return found

    def _added(self, drafter: _Drafter, request: Request, domain: str) -> Iterator[Raised]:
        if drafter.baseline is None:
            if request.version == drafter.first_version:
                drafter.lengths.append(request.length)
            if len(drafter.lengths) >= self._fewest:
                drafter.baseline, drafter.lengths = baseline_of(drafter.lengths), []
            return
        watch = drafter.watches.setdefault(request.version, Watch(drafter.baseline, self._rules))
        for alarm in watch.add(request.length):
            yield Raised(
                request.version, request.drafter, domain, drafter.baseline.mean, drafter.first_version, alarm
            )

    def rows(self) -> list[dict[str, Any]]:
        """[{drafter, domain, version, requests, recent, baseline, baseline_version, raised}] as they stand now; recent:
        mean length of the last requests, None before there are some.
        """
        found = []
        for (name, domain), one in sorted(self._drafters.items()):
            about = {"drafter": name, "domain": domain, "baseline_version": one.first_version}
            if one.baseline is None:
                waiting = {"version": one.first_version, "requests": len(one.lengths), "recent": _mean(one.lengths)}
                found.append(about | waiting | {"baseline": None, "raised": []})
                continue
            for version, watch in one.watches.items() or {one.first_version: Watch(one.baseline)}.items():
                found.append(about | {
                    "version": version, "requests": watch.seen, "recent": watch.recent, "baseline": one.baseline.mean,
                    "raised": sorted(watch.raised),
                })  # fmt: skip
        return found

    def to_dict(self) -> list[dict[str, Any]]:
        """All of it as JSON, to go on from."""
        return [
            {
                "drafter": name, "domain": domain, "first_version": one.first_version, "lengths": one.lengths,
                "baseline": None if one.baseline is None else asdict(one.baseline),
                "watches": {version: watch.state() for version, watch in one.watches.items()},
            }
            for (name, domain), one in self._drafters.items()
        ]  # fmt: skip

    def load(self, kept: list[dict[str, Any]]) -> None:
        """Go on from what `to_dict` gave."""
        for row in kept:
            baseline = None if row["baseline"] is None else Baseline(**row["baseline"])
            one = _Drafter(row["first_version"], list(row["lengths"]), baseline)
            for version, state in row["watches"].items():
                assert baseline is not None  # only then something is watched
                one.watches[version] = Watch.from_state(baseline, self._rules, state)
            self._drafters[row["drafter"], row["domain"]] = one


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
