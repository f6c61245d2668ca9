"""Several adapters of one target: which of them earns draft heads of its own.

Every adapter's held-out prompts were answered by the same drafters in turns: one that all share, its own, one made for
the mixture, n-gram lookup, and none. What own heads gain is their speed over the shared drafter's on the same prompts
(comparing.py, paired by prompt). Three things can be said of it: the gain is beyond the border that was asked for, or
below it, or the prompts are too few; then, since the width of an interval falls with the square root of the prompts,

    n' = n (w / |m - b|)^2        m +- w: the interval of the gain with n prompts, b: the border

prompts would settle it, if the middle stays where it is. What follows for a mix of traffic is in adapter_traffic.py.
Knows counts and names; no drafter, no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final, Literal

from backend.analysis.bootstrap import FEWEST, Interval
from backend.analysis.comparing import Answer, Comparison, Side, compare
from backend.analysis.counts import PromptCounts
from backend.analysis.paired import Difference, difference
from backend.analysis.verdict import between, claim, signed

SHARED: Final = "shared"
OWN: Final = "own"
MIXTURE: Final = "mixture"
NGRAM: Final = "ngram"
PLAIN: Final = "plain"
#: Who answers, in the order they are shown, and how they are called.
DRAFTERS: Final[Mapping[str, str]] = {
    SHARED: "the shared drafter", OWN: "its own heads", MIXTURE: "the mixture's drafter", NGRAM: "n-gram lookup",
    PLAIN: "plain decoding",
}  # fmt: skip
SPEED: Final = "tokens_per_s"
MOST_MORE: Final = 100_000  #: prompts beyond which nobody would go on measuring
Verdict = Literal["earns", "does not", "too few"]


@dataclass(frozen=True)
class Cost:
    """What a drafter takes: minutes of training (None where nobody knows), megabytes (10^6 bytes) of memory."""

    minutes: float | None
    megabytes: float


@dataclass(frozen=True)
class DrafterRow:
    """One drafter on one adapter's prompts. Intervals are of 95 %, None with too few prompts.

    Args:
        speedup: over plain decoding of the same prompts, in turns.
        over_shared: how much faster than the shared drafter, as a share of it, with `over_shared_interval`; None for
            the shared one itself.
        marginal: acceptance at depth 1, 2, ... of all steps, each with its interval; `conditional`: of the steps that
            drafted a child there.
    """

    drafter: str
    acceptance_length: float | None
    acceptance_interval: Interval | None
    speedup: float | None
    speedup_interval: Interval | None
    tokens_per_s: float | None
    over_shared: float | None
    over_shared_interval: Interval | None
    marginal: tuple[float | None, ...]
    marginal_intervals: tuple[Interval | None, ...]
    conditional: tuple[float | None, ...]


@dataclass(frozen=True)
class AdapterFound:
    """What is said of one adapter.

    Args:
        best: the fastest drafter; `best_sure`: it is faster than every other by more than chance (verdict.py).
        missing: prompts that are missing to say whether own heads are worth it; None where nothing is missing, or more
            than MOST_MORE would be.
    """

    name: str
    prompts: int
    rows: tuple[DrafterRow, ...]
    best: str | None
    best_sure: bool
    verdict: Verdict
    missing: int | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judged(
    name: str,
    answers: Mapping[str, Mapping[str, PromptCounts]],
    min_gain: float,
    own: Cost,
    temperature: float = 0.0,
) -> AdapterFound:
    """What is to be said of the adapter `name`.

    Args:
        answers: by drafter (keys of DRAFTERS, the shared one, own and plain among them), by what was asked.
        min_gain: the least gain in speed over the shared drafter that is worth heads of one's own, as a share.
        own: what its own heads cost.

    Raises ValueError where one of these three drafters is missing.
    """
    missing = [one for one in (SHARED, OWN, PLAIN) if one not in answers]
    if missing:
        raise ValueError(f"own heads are held against the shared drafter and plain decoding; {missing[0]} is missing")
    there = [one for one in DRAFTERS if one in answers]
    sides = [_side(one, answers, temperature) for one in there]
    found = compare(sides, there.index(SHARED))
    rows = tuple(_row(found, place, one) for place, one in enumerate(there))
    figures = found.figures.get(SPEED, ())
    if not figures or any(one.value is None for one in figures):
        return AdapterFound(name, found.common, rows, None, False, "too few", FEWEST, _nothing(name))
    best = claim(SPEED, figures)
    gain = difference(figures[there.index(SHARED)], figures[there.index(OWN)])
    verdict, more = _verdict(gain, min_gain, found.common)
    beside = difference(figures[there.index(MIXTURE)], figures[there.index(OWN)]) if MIXTURE in there else None
    sentence = _sentence(name, verdict, gain, min_gain, more, own) + _besides(there[best.best], verdict, beside)
    return AdapterFound(name, found.common, rows, there[best.best], best.sure, verdict, more, sentence)


def needed_prompts(between: Interval, border: float, prompts: int) -> int | None:
    """How many prompts more would tell on which side of `border` the middle of this interval lies, at least 1; None if
    they were more than MOST_MORE. See the module for the formula.
    """
    half, away = (between.high - between.low) / 2, abs((between.high + between.low) / 2 - border)
    if away == 0 or prompts * (half / away) ** 2 - prompts > MOST_MORE:
        return None
    return max(1, ceil(prompts * (half / away) ** 2) - prompts)


def _side(drafter: str, answers: Mapping[str, Mapping[str, PromptCounts]], temperature: float) -> Side:
    plain = answers[PLAIN]
    own = {(asked, temperature): Answer(one, temperature, plain.get(asked)) for asked, one in answers[drafter].items()}
    return Side(drafter, DRAFTERS[drafter], own)


def _row(found: Comparison, place: int, drafter: str) -> DrafterRow:
    lines = {line.name: line.sides[place] for line in found.lines}
    length, speed, ratio_ = (lines.get(name) for name in ("acceptance_length", SPEED, "speedup"))
    against = speed.against if speed is not None else None
    depths = [line.sides[place] for line in found.depths] if drafter != PLAIN else []
    return DrafterRow(
        drafter=drafter,
        acceptance_length=length.value if length else None,
        acceptance_interval=length.interval if length else None,
        speedup=ratio_.value if ratio_ else None,
        speedup_interval=ratio_.interval if ratio_ and drafter != PLAIN else None,
        tokens_per_s=speed.value if speed else None,
        over_shared=against.change if against else None,
        over_shared_interval=against.change_interval if against else None,
        marginal=tuple(one.value for one in depths),
        marginal_intervals=tuple(one.interval for one in depths),
        conditional=found.conditional[place] if drafter != PLAIN else (),
    )


def _verdict(gain: Difference, border: float, prompts: int) -> tuple[Verdict, int | None]:
    between = gain.change_interval
    if between is None:
        return "too few", max(1, FEWEST - prompts)
    if between.low >= border:
        return "earns", None
    if between.high < border:
        return "does not", None
    return "too few", needed_prompts(between, border, prompts)


def _nothing(name: str) -> str:
    return f"Too few prompts to say whether {name} earns its own heads: no answer was measured beyond its first token."


def _sentence(name: str, verdict: Verdict, gain: Difference, border: float, more: int | None, own: Cost) -> str:
    sure = f"95 % interval {between(gain.change_interval)}" if gain.change_interval else "no interval yet"
    change, asked = f"{signed(gain.change)} tokens/s against the shared drafter ({sure})", f"{100 * border:g} %"
    if verdict == "earns":
        trained = "" if own.minutes is None else f"{minutes_in_words(own.minutes)} of training and "
        return f"{name} earns its own heads: {change}, for {trained}{megabytes_in_words(own.megabytes)} of memory."
    if verdict == "does not":
        return f"{name} doesn't earn its own heads: {change}, less than the {asked} that were asked for."
    if more is None:
        return (
            f"Too few prompts to say whether {name} earns its own heads: {change}, so near the {asked} that were asked "
            "for that more prompts would hardly settle it."
        )
    prompts = "1 more held-out prompt" if more == 1 else f"about {more:,} more held-out prompts"
    return f"Too few prompts to say whether {name} earns its own heads: {change}; {prompts} would tell."


def _besides(best: str, verdict: Verdict, over_mixture: Difference | None) -> str:
    """What a person would overlook: something simpler does as well."""
    if best in (NGRAM, PLAIN):
        return f" {DRAFTERS[best][:1].upper()}{DRAFTERS[best][1:]} is fastest there."
    apart = over_mixture.interval if over_mixture is not None else None
    if verdict == "earns" and over_mixture is not None and not (apart and apart.low > 0):
        return " The mixture's drafter may do as well: chance can't be ruled out between the two."
    return ""


def minutes_in_words(minutes: float) -> str:
    """ "3.2 min", or "12 s" where that says more."""
    return f"{60 * minutes:.0f} s" if minutes < 1 else f"{minutes:.1f} min"


def megabytes_in_words(megabytes: float) -> str:
    return f"{megabytes:,.0f} MB" if megabytes >= 10 else f"{megabytes:.2g} MB"
