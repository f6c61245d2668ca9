"""A comparison in one plain sentence: which side is better, on what, and how sure that is.

A side is only called better where its paired difference to every other side is beyond chance; with several others each
is held to a stricter level (Bonferroni), so that choosing the best of many is no way to find a difference that is not
there. Knows numbers and names; computes no figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.analysis.bootstrap import FEWEST, LEVEL, Interval
from backend.analysis.comparing import RIGHT, Comparison
from backend.analysis.paired import Difference, Figure, difference, mcnemar

MINUS = "\N{MINUS SIGN}"
SMALLEST_P = 0.001
CERTAIN = 0.05
#: figure -> (what the better one does, how a value is said, its unit, what the figure is called)
WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "acceptance_length": ("accepts more", "{:.2f}", "tokens a step", "acceptance length"),
    "speedup": ("gains more over plain decoding", "{:.2f}", "times its speed", "speedup"),
    "tokens_per_s": ("is faster", "{:.1f}", "tokens/s", "speed"),
}


@dataclass(frozen=True)
class Claim:
    """What a figure says. `best`: the side with the highest; `next`: the second one; `beyond`: second to best.

    `sure`: the best one beats every other side by more than chance.
    """

    figure: str
    best: int
    next: int
    beyond: Difference
    sure: bool


@dataclass(frozen=True)
class Verdict:
    """`sentence`: what to read first. `better`: the side that is better on all of the claims, if one is."""

    sentence: str
    claims: tuple[Claim, ...]
    better: int | None


def verdict(found: Comparison, speeds_compare: bool = True) -> Verdict:
    """`speeds_compare`: whether all sides ran on the same machine with the same settings of it."""
    if found.common < FEWEST:
        many = "no prompt" if not found.common else "1 prompt" if found.common == 1 else f"{found.common} prompts"
        sentence = f"These runs have {many} in common: with fewer than {FEWEST} nothing can be said beyond them."
        return Verdict(sentence, (), None)
    names = [side.name for side in found.sides]
    claims = [claim(name, found.figures[name]) for name in _judged(found, speeds_compare)]
    winners = {one.best if one.sure else None for one in claims}
    better = winners.pop() if len(winners) == 1 else None
    everywhere = better is not None and len(claims) > 1
    parts = [_words(one, found.figures[one.figure], names, "it" if everywhere else "") for one in claims]
    if RIGHT in found.figures:
        parts.append(_right(found.figures[RIGHT], names))
    sentence = "; ".join(parts) or "these runs took no steps, so nothing can be compared"
    if everywhere and better is not None:
        sentence = f"{names[better]} is better on every count: {sentence}"
    sentence = f"{sentence[:1].upper()}{sentence[1:]}, on {found.common} common prompts."
    return Verdict(sentence, tuple(claims), better)


def _judged(found: Comparison, speeds_compare: bool) -> list[str]:
    """Length, and one figure of speed: over plain decoding where that is known, which other machines change least."""
    fast = "speedup" if "speedup" in found.figures else "tokens_per_s" if speeds_compare else ""
    return [name for name in ("acceptance_length", fast) if name in found.figures and _complete(found.figures[name])]


def _complete(figures: Sequence[Figure]) -> bool:
    return all(one.value is not None for one in figures)


def claim(name: str, figures: Sequence[Figure]) -> Claim:
    """Which of two or more sides has the highest figure, and whether that is beyond chance. All figures are known."""
    ranked = sorted(range(len(figures)), key=lambda side: figures[side].value or 0.0, reverse=True)
    best, others = ranked[0], ranked[1:]
    strict = 1 - (1 - LEVEL) / len(others)
    between = [difference(figures[other], figures[best], strict).interval for other in others]
    sure = all(one is not None and one.low > 0 for one in between)
    return Claim(name, best, others[0], difference(figures[others[0]], figures[best]), sure)


def _words(claim: Claim, figures: Sequence[Figure], names: Sequence[str], pronoun: str) -> str:
    """`pronoun`: what stands for the best side's name where it was named already."""
    does, how, unit, called = WORDS[claim.figure]
    best, second = (how.format(figures[side].value or 0.0) for side in (claim.best, claim.next))
    more = f"{signed(claim.beyond.change)} ({certainty(claim.beyond)})"
    against = f"{names[claim.next]}{', the next best' if len(figures) > 2 else ''}"
    if claim.sure:
        return f"{pronoun or names[claim.best]} {does} than {against}: {best} {unit} against {second}, {more}"
    return (
        f"on {called} chance can't be ruled out: {best} {unit} of {names[claim.best]} against {second} of {against}, "
        f"{more}"
    )


def _right(figures: Sequence[Figure], names: Sequence[str]) -> str:
    ranked = sorted(range(len(figures)), key=lambda side: figures[side].value or 0.0, reverse=True)
    best, second = ranked[:2]
    test = mcnemar(figures[second].each == 1, figures[best].each == 1)
    shares = f"{100 * (figures[best].value or 0):.0f} % against {100 * (figures[second].value or 0):.0f} %"
    if test.p < CERTAIN / (len(figures) - 1):
        return f"{names[best]} gives the wanted answer more often than {names[second]}, {shares} ({p_value(test.p)})"
    return f"the wanted answer is given about as often ({shares}, {p_value(test.p)})"


def certainty(found: Difference) -> str:
    """ "95 % interval +6.1 % to +13.0 %, p < 0.001"."""
    parts = [f"95 % interval {between(found.change_interval)}"] if found.change_interval else []
    if found.test is not None:
        parts.append(p_value(found.test.p))
    return ", ".join(parts)


def between(interval: Interval) -> str:
    return f"{signed(interval.low)} to {signed(interval.high)}"


def signed(change: float | None) -> str:
    """ "+9.5 %", with a real minus sign."""
    return "unknown" if change is None else f"{100 * change:+.1f} %".replace("-", MINUS)


def p_value(p: float) -> str:
    return f"p < {SMALLEST_P}" if p < SMALLEST_P else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
