"""A mix of traffic over several adapters: how fast each way of drafting writes it, and what it takes.

Time per token is what adds: with share f_a of the tokens written for adapter a at v_a tokens a second, the mix is
written at

    1 / sum_a (f_a / v_a)        the harmonic mean of the speeds, weighted by traffic

so an adapter that is written slowly weighs more than its share. Another mix needs no new measurement. Knows times and
names; no drafter, no page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any, Final

import numpy as np

from backend.analysis.bootstrap import Interval, difference_interval, interval
from backend.analysis.counts import PromptCounts
from backend.analysis.many_adapters import MIXTURE, NGRAM, OWN, PLAIN, SHARED, Cost, megabytes_in_words
from backend.analysis.paired import Figure, ratio
from backend.analysis.verdict import between, signed
from backend.errors import HeadwayError

EARNED: Final = "earned"
#: What can be done for all adapters together.
STRATEGIES: Final[Mapping[str, str]] = {
    SHARED: "one shared drafter", OWN: "own heads for every adapter", MIXTURE: "one drafter for the mixture",
    EARNED: "own heads where they earn it, else the shared drafter", NGRAM: "n-gram lookup", PLAIN: "plain decoding",
}  # fmt: skip


@dataclass(frozen=True)
class Times:
    """How long the answers of one drafter took on one adapter. tokens: [prompts] that came out of steps (the first of
    an answer belongs to prefill); ms: [prompts] of those steps.
    """

    tokens: tuple[int, ...]
    ms: tuple[float, ...]


@dataclass(frozen=True)
class Strategy:
    """One way to serve all adapters, for a mix of traffic.

    Args:
        tokens_per_s: of the mix; `over_plain`: times plain decoding of the same mix; `over_shared`: faster than one
            shared drafter, as a share. Each with its interval.
        megabytes, minutes: of all drafters that it serves; minutes None where one of them is not known.
        own: adapters that draft with heads of their own.
    """

    strategy: str
    tokens_per_s: float
    interval: Interval | None
    over_plain: float | None
    over_plain_interval: Interval | None
    over_shared: float | None
    over_shared_interval: Interval | None
    megabytes: float
    minutes: float | None
    own: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def times_of(answers: Mapping[str, Mapping[str, PromptCounts]]) -> dict[str, Times]:
    """Of one adapter: by drafter, the times of the prompts that every drafter answered, in the same order."""
    common = sorted(set.intersection(*(set(one) for one in answers.values())))
    return {
        drafter: Times(tuple(own[one].num_tokens - 1 for one in common), tuple(own[one].decode_ms for one in common))
        for drafter, own in answers.items()
    }


def times_to_dict(times: Mapping[str, Times]) -> dict[str, dict[str, list[float]]]:
    """As JSON; `times_from_dict` reads it back."""
    return {drafter: {"tokens": list(one.tokens), "ms": list(one.ms)} for drafter, one in times.items()}


def times_from_dict(data: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Times]:
    """Raises KeyError where tokens or ms are missing."""
    return {
        drafter: Times(tuple(map(int, one["tokens"])), tuple(map(float, one["ms"]))) for drafter, one in data.items()
    }


def traffic_shares(asked: Mapping[str, float], adapters: Sequence[str]) -> dict[str, float]:
    """The share of the tokens that are written for each adapter, adding up to 1: as asked (in any unit; who is not
    named gets none), else the same for all.

    Raises HeadwayError for an adapter that is none of these, and for numbers that don't add up to anything.
    """
    unknown = next((name for name in asked if name not in adapters), None)
    if unknown is not None:
        raise HeadwayError(f"The traffic names {unknown}, which is none of the adapters ({', '.join(adapters)}).")
    wrong = next((name for name, share in asked.items() if not 0 <= share < float("inf")), None)
    if wrong is not None:
        raise HeadwayError(f"The traffic of {wrong} can't be {asked[wrong]:g}; give a number of 0 or more.")
    parts = dict(asked) if asked else dict.fromkeys(adapters, 1.0)
    whole = fsum(parts.values())
    if not whole:
        raise HeadwayError("The traffic adds up to nothing; give at least one adapter a share above 0.")
    return {name: parts.get(name, 0.0) / whole for name in adapters}


def strategies(
    times: Mapping[str, Mapping[str, Times]],
    shares: Mapping[str, float],
    earned: Collection[str],
    own: Mapping[str, Cost],
    joint: Mapping[str, Cost],
) -> tuple[Strategy, ...]:
    """Every way to serve the mix, in the order of STRATEGIES, without those that something was not measured for.

    Args:
        times: by adapter and drafter; shares: see `traffic_shares`; earned: adapters that earn their own heads.
        own: what each adapter's own heads cost; joint: the shared drafter and, where there is one, the mixture's.

    Raises ValueError where an adapter with traffic was not measured.
    """
    served = [name for name, share in shares.items() if share > 0]
    unmeasured = next((name for name in served if name not in times), None)
    if unmeasured is not None:
        raise ValueError(f"there is traffic for {unmeasured}, which was not measured")
    per_token = {(name, drafter): _per_token(name, one) for name in served for drafter, one in times[name].items()}
    prompts = min(len(one.tokens) for name in served for one in times[name].values())
    mixes: dict[str, Figure] = {}
    chosen: dict[str, dict[str, str]] = {}
    for strategy in STRATEGIES:
        chosen[strategy] = {name: _drafter_of(strategy, name, earned) for name in served}
        parts = [(shares[name], per_token.get((name, drafter))) for name, drafter in chosen[strategy].items()]
        if all(one is not None and one.value is not None for _, one in parts):
            mixes[strategy] = _mixed([(share, one) for share, one in parts if one is not None])
    return tuple(
        _strategy(name, mix, mixes.get(PLAIN), mixes.get(SHARED), prompts, chosen[name], own, joint)
        for name, mix in mixes.items()
    )


def _drafter_of(strategy: str, adapter: str, earned: Collection[str]) -> str:
    if strategy == EARNED:
        return OWN if adapter in earned else SHARED
    return strategy


def _per_token(adapter: str, times: Times) -> Figure:
    """Seconds a token. Adapters have prompts of their own, so each is resampled by draws of its own."""
    return ratio([ms / 1000 for ms in times.ms], times.tokens, f"adapter {adapter}")


def _mixed(parts: Sequence[tuple[float, Figure]]) -> Figure:
    """Seconds a token of the mix; its draws are as many as the shortest part has."""
    repeats = min(len(one.draws) for _, one in parts)
    value = fsum(share * (one.value or 0.0) for share, one in parts)
    draws = np.sum([share * one.draws[:repeats] for share, one in parts], axis=0)
    return Figure(value or None, draws, np.empty(0))


def _strategy(
    name: str,
    mix: Figure,
    plain: Figure | None,
    shared: Figure | None,
    prompts: int,
    chosen: Mapping[str, str],
    own: Mapping[str, Cost],
    joint: Mapping[str, Cost],
) -> Strategy:
    mine = tuple(adapter for adapter, drafter in chosen.items() if drafter == OWN)
    together = [joint[drafter] for drafter in dict.fromkeys(chosen.values()) if drafter in joint]
    costs = [*together, *(own[adapter] for adapter in mine)]
    minutes = [one.minutes for one in costs]
    over_plain = None if plain is None else plain.over(mix)
    faster = None if shared is None or name == SHARED else shared.over(mix)
    return Strategy(
        strategy=name,
        tokens_per_s=1 / mix.value if mix.value else 0.0,
        interval=interval(1 / mix.draws, prompts),
        over_plain=over_plain.value if over_plain else None,
        over_plain_interval=interval(over_plain.draws, prompts) if over_plain and name != PLAIN else None,
        over_shared=faster.value - 1 if faster and faster.value is not None else None,
        over_shared_interval=difference_interval(faster.draws - 1, prompts) if faster else None,
        megabytes=fsum(one.megabytes for one in costs),
        minutes=None if any(one is None for one in minutes) else fsum(one for one in minutes if one is not None),
        own=mine,
    )


def mix_sentence(found: Sequence[Strategy]) -> str:
    """Which way is fastest for the mix, and what it takes."""
    if not found:
        return "Nothing was measured for this traffic."
    best = max(found, key=lambda one: one.tokens_per_s)
    words = (
        f"For this traffic {STRATEGIES[best.strategy]} {_gives(best.strategy)} most: {best.tokens_per_s:.1f} tokens/s"
    )
    if best.over_shared is not None:
        apart = best.over_shared_interval
        sure = f", 95 % interval {between(apart)}" if apart else ""
        words += f" ({signed(best.over_shared)} against one shared drafter{sure})"
        if apart is None or not apart.beyond_zero:
            words += ", which chance could explain"
    return f"{words}, with {megabytes_in_words(best.megabytes)} of drafters in memory."


def _gives(strategy: str) -> str:
    return "give" if strategy in (OWN, EARNED) else "gives"
