"""Why is acceptance low? Causes with their evidence, what mending each would gain, and which of them to look at first.

A finding's gain is told in acceptance length, and how it is known is told too:

    certain    a fault of files or versions, seen without measuring; the gain is an interval where one can be told
    measured   the cause was undone, nothing else, on the same texts; the gain is a paired difference over prompts
    estimated  the cause can't be undone here; the gain lies between two bounds, and how they come about is said
    speed      the acceptance stays as it is, the step becomes cheaper; the gain is told as a share of the speed
    hint       seen, but nothing says that it costs anything

Findings are ranked in that order, then by gain. Knows numbers that others measured; no model and no file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from backend.analysis.bootstrap import FEWEST, Interval, difference_interval, interval, ratio_draws

How = Literal["certain", "measured", "estimated", "speed", "hint"]
ORDER: Final[tuple[How, ...]] = ("certain", "measured", "estimated", "speed", "hint")
LEAST_GAIN: Final = 0.05  #: in acceptance length; less is not worth a finding
LEAST_SHARE: Final = 0.03  #: of the speed
PRECISE: Final = 0.25  #: half the width of the acceptance length's interval, over the length, that a verdict takes
HEALTHY: Final = 1.2  #: below this acceptance length nobody is called healthy
_NAME: Final = "doctor"  #: of the draws: the same prompts for all figures

#: kind -> (what mends or tests it, a command where there is one); more specific kinds stand first
KINDS: Final[Mapping[str, str]] = {
    "file-damaged": "Copy the drafter again, or `train` it again.",
    "tensor-missing": "Copy the drafter again, or `export` and `import` it again.",
    "tensor-unknown": "Copy the drafter again, or `import` it from where it was published.",
    "tensor-shape": "Take the target that it was trained for, or `train` one for this target.",
    "tensor-not-finite": "`train` again; store float32 if float16 overflowed.",
    "tensor-zero": "`train` again from a sound state with --start-from.",
    "tensors-identical": "`train` again; each depth needs weights of its own.",
    "tensor-untrained": "`train` again and look whether the loss of every depth falls.",
    "weights-differ": "`train` a drafter for this version, with answers that it gave itself (`distill`).",
    "adapter-differs": "`train` for the target with this adapter, or serve the one it was trained for.",
    "quantisation-differs": "`train` for the quantised target, starting from this drafter with --start-from.",
    "tokenizer-differs": "Take a drafter for this tokenizer; `versions` says what differs.",
    "template-differs": "Serve with the template it was trained for, or `distill` and `train` with this one.",
    "vocab-map": "`import` it again, or copy the map that it was trained with.",
    "wrong-layers": "Write the layers that were tried into its config, or `export` for the right engine.",
    "states-size": "Serve the states as they were in training: same dtype, quantisation and norm.",
    "prompt-format": "Serve prompts as in training, or `distill` and `train` with the format that is served.",
    "temperature-shift": "`distill` at the temperature that is served, and `train` on that.",
    "label-offset": "`train` again: head k has to learn the token k + 2 behind its state.",
    "depth-untrained": "`train` with more test-time steps, or take a shallower --tree.",
    "text-not-own": "`distill` with this target and `train` on its own answers.",
    "prompt-trained": "`train` on answers only; `show-mask` shows what is trained on.",
    "vocab-coverage": "`vocab-curve` says which draft vocabulary is large enough; `train` with that one.",
    "too-little-data": "`data-curve` says how many more training tokens a gain takes; `distill` more.",
    "context-shift": "`distill` and `train` with contexts as long as those that are served.",
    "states-direction": "`distill` and `train` with the target as it is served.",
    "domain-shift": "`distill` prompts of this domain and `train` on them too.",
    "metric-convention": "Compare numbers of one convention only; the glossary has them all.",
    "tree-too-deep": "`tune-tree` with this calibration and cost; --tree with fewer levels.",
    "tree-too-wide": "`tune-tree` with this calibration and cost; --tree with fewer siblings.",
    "dtype-differs": "`evaluate` with --dtype as in training and compare.",
}


_MEASURE: Final = "python app.py evaluate --target {target} --drafters {drafter} --prompts {prompts}"
_TUNE: Final = "python app.py tune-tree --calibration CALIBRATION --cost COST"
#: kind -> the command that mends or tests it; "train" for all others
COMMANDS: Final[Mapping[str, str]] = {
    "train": "python app.py train --target {target} --answers ANSWERS.jsonl --start-from {drafter}",
    "prompt-format": "python app.py distill --target {target} --prompts {prompts}",
    "text-not-own": "python app.py distill --target {target} --prompts PROMPTS.jsonl",
    "too-little-data": "python app.py data-curve --evaluation TABLE.json --gain 0.2 --answers ANSWERS.jsonl",
    "domain-shift": "python app.py distill --target {target} --prompts {prompts}",
    "context-shift": "python app.py distill --target {target} --prompts LONG.jsonl",
    "temperature-shift": "python app.py distill --target {target} --prompts {prompts} --temperatures T",
    "vocab-coverage": "python app.py vocab-curve --answers ANSWERS.jsonl",
    "tree-too-deep": _TUNE,
    "tree-too-wide": _TUNE,
    "dtype-differs": _MEASURE,
    "metric-convention": _MEASURE,
    "template-differs": "python app.py versions list",
}


@dataclass(frozen=True)
class Finding:
    """One cause. gain: acceptance length that mending it would add, a point or None; low, high: its bounds."""

    kind: str
    sentence: str
    how: How
    evidence: Mapping[str, Any] = field(default_factory=dict)
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    told_by: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "sentence": self.sentence, "how": self.how, "evidence": dict(self.evidence),
            "gain": _rounded(self.gain), "low": _rounded(self.low), "high": _rounded(self.high),
            "told_by": self.told_by, "mend": KINDS[self.kind],
        }  # fmt: skip


@dataclass(frozen=True)
class Lengths:
    """Tokens and steps of every prompt, in the same order for all that is compared."""

    tokens: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def num_steps(self) -> int:
        return sum(self.steps)

    @property
    def value(self) -> float:
        """The acceptance length; 1 without steps."""
        return sum(self.tokens) / self.num_steps if self.num_steps else 1.0

    def span(self) -> Interval | None:
        return interval(ratio_draws(self.tokens, self.steps, _NAME), sum(1 for steps in self.steps if steps))

    def to_dict(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens), "steps": list(self.steps)}


def lengths_from(data: Mapping[str, Any]) -> Lengths:
    """Back from JSON."""
    return Lengths(tuple(data["tokens"]), tuple(data["steps"]))


def gained(now: Lengths, other: Lengths) -> tuple[float, Interval | None]:
    """How much longer `other` is, paired where both have the same number of prompts."""
    prompts = min(len(now.steps), len(other.steps))
    drawn = [ratio_draws(one.tokens, one.steps, _NAME) for one in (now, other)]
    repeats = min(map(len, drawn))
    return other.value - now.value, difference_interval(drawn[1][:repeats] - drawn[0][:repeats], prompts)


def undone(
    kind: str, now: Lengths, tried: Mapping[str, Lengths], sentence: str, evidence: Mapping[str, Any] | None = None
) -> Finding | None:
    """The best of what was tried, where it is surely better than what is; `{name}` in the sentence is its name."""
    best: Finding | None = None
    for name, other in tried.items():
        gain, span = gained(now, other)
        if span is None or span.low <= 0 or gain < LEAST_GAIN or (best and best.gain is not None and gain <= best.gain):
            continue
        best = Finding(
            kind, sentence.format(name=name), "measured",
            {"now": round(now.value, 3), "undone": round(other.value, 3), "tried": name, **(evidence or {})},
            gain, span.low, span.high, "undone on the same texts; 95 % of draws of prompts",
        )  # fmt: skip
    return best


def stored_gap(now: Lengths, stored: float | None) -> tuple[float | None, float | None]:
    """Bounds of a gain that is at most what was once reached: (0, stored - now), or None without a stored number."""
    return (None, None) if stored is None else (0.0, max(0.0, stored - now.value))


def bounded(
    kind: str, sentence: str, high: float, evidence: Mapping[str, Any], told_by: str, how: How = "estimated"
) -> Finding | None:
    """A finding whose gain lies between 0 and `high`; None where that is too little."""
    if not high >= LEAST_GAIN:
        return None
    return Finding(kind, sentence, how, evidence, None, 0.0, high, told_by)


# -- from guesses ------------------------------------------------------------------------------------------------------


def rates_by_depth(hits: NDArray[np.bool_], known: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """[T, K] each -> (hits, tried) at every depth, of the positions that were right at all depths before."""
    found, alive = [], np.ones(len(hits), dtype=bool)
    for depth in range(hits.shape[1]):
        alive = alive & known[:, depth]
        found.append((int((hits[:, depth] & alive).sum()), int(alive.sum())))
        alive = alive & hits[:, depth]
    return found


def length_of(rates: Iterable[float]) -> float:
    """1 + r1 + r1 r2 + ..., the acceptance length of a chain with these conditional rates."""
    total, product = 1.0, 1.0
    for rate in rates:
        product *= min(1.0, rate)
        total += product
    return total


def untrained_depth(
    rates: Sequence[tuple[int, int]], trained: int | None, now: Lengths, widths: Sequence[int] = ()
) -> Finding | None:
    """A depth whose rate falls off a cliff, or that lies beyond what was trained and is surely worse."""
    values = [hit / tried if tried else 0.0 for hit, tried in rates]
    for depth in range(1, len(rates)):
        tried, (before, tried_before) = rates[depth][1], rates[depth - 1]
        beyond = trained is not None and depth >= trained
        if tried < 10 or not tried_before:
            continue
        noise = 2 * math.sqrt(sum(max(r * (1 - r), 0.02) / n for r, n in
                                  ((values[depth], tried), (values[depth - 1], tried_before))))  # fmt: skip
        cliff = values[depth] < (0.6 if beyond else 0.3) * values[depth - 1]
        if cliff and values[depth - 1] - values[depth] > noise and before >= 10:
            high = length_of([*values[:depth], *[values[depth - 1]] * (len(values) - depth)]) - length_of(values)
            told = f"it was trained to depth {trained}" if beyond else "the depth before is right far more often"
            return bounded(
                "depth-untrained",
                f"From depth {depth + 1} on guesses are hardly ever right ({100 * values[depth]:.0f} % after "
                f"{100 * values[depth - 1]:.0f} % at depth {depth}): {told}.",
                max(high, LEAST_GAIN), {"rates": [round(v, 3) for v in values], "trained_depth": trained},
                "0 to what the depths would add at the rate of the last good one",
            )  # fmt: skip
    return None


def label_offset(shifted: Mapping[int, Lengths], first: Mapping[int, tuple[int, int]], now: Lengths) -> Finding | None:
    """`shifted`: chains whose guesses are held against the tokens so many places further; `first`: (hits, tried) of the
    first guess. 0 is the right place.
    """
    rate = {shift: hit / tried if tried else 0.0 for shift, (hit, tried) in first.items()}
    tried = {s: one for s, one in shifted.items() if s and rate[s] > rate[0] + 0.1}
    made = undone(
        "label-offset", shifted[0], {f"{shift:+d}": one for shift, one in tried.items()},
        "Guesses fit the tokens {name} place from where they are put: it was trained with labels that are off by that.",
        {"first_guess_right": {f"{shift:+d}": round(value, 3) for shift, value in sorted(rate.items())}},
    )  # fmt: skip
    return made


def coverage(now: Lengths, rates: Sequence[tuple[int, int]], covered: int, tokens: int) -> Finding | None:
    """A draft vocabulary that leaves out tokens the target writes."""
    share = covered / tokens if tokens else 1.0
    if share > 0.98:
        return None
    values = [hit / tried if tried else 0.0 for hit, tried in rates]
    high = length_of(value / max(share, 1e-9) for value in values) - length_of(values)
    return bounded(
        "vocab-coverage",
        f"{100 * (1 - share):.0f} % of the target's tokens can't be drafted: they are not in the draft vocabulary.",
        high, {"covered": covered, "tokens": tokens},
        "0 to what tokens left out would add if they were guessed as well as the others",
    )  # fmt: skip


def weakest_group(kind: str, groups: Mapping[str, Lengths], words: str) -> Finding | None:
    """The group (a domain, say) that is surely worse than all others together. Groups are other prompts, so this is not
    paired.
    """
    found: Finding | None = None
    for name, one in groups.items():
        rest = [other for key, other in groups.items() if key != name and other.num_steps]
        if not rest or not one.num_steps:
            continue
        others = Lengths(tuple(t for o in rest for t in o.tokens), tuple(s for o in rest for s in o.steps))
        span, theirs = one.span(), others.span()
        if span is None or theirs is None or span.high >= theirs.low:
            continue
        everything = Lengths(one.tokens + others.tokens, one.steps + others.steps)
        lifted = sum(everything.tokens) / (sum(one.tokens) / others.value + others.num_steps)
        made = bounded(
            kind, words.format(name=name, length=one.value, others=others.value), lifted - everything.value,
            {"group": name, "length": round(one.value, 3), "others": round(others.value, 3)},
            "0 to what it would be if these prompts were accepted like the others",
        )  # fmt: skip
        if made and (found is None or (made.high or 0) > (found.high or 0)):
            found = made
    return found


CONVENTIONS: Final[Mapping[str, str]] = {
    "without_bonus": "accepted tokens a step, without the target's own",
    "acceptance_rate": "accepted tokens over drafted ones",
}


def convention(now: Lengths, drafted: int, expected: float) -> Finding | None:
    """The number that was expected is the measured one in another convention."""
    accepted = sum(now.tokens) - now.num_steps
    numbers = {"without_bonus": now.value - 1, "acceptance_rate": accepted / drafted if drafted else math.nan}
    span = now.span()
    near = max(0.05, (span.high - span.low) / 2 if span else 0.1)
    for name, value in numbers.items():
        close = near if name == "without_bonus" else near * (value / max(now.value - 1, 1e-9))
        if abs(value - expected) <= close < abs(now.value - expected):
            return Finding(
                "metric-convention",
                f"The expected {expected:g} is what was measured, counted as {CONVENTIONS[name]} ({value:.3f}); as "
                f"acceptance length it is {now.value:.3f}.",
                "certain", {"convention": name, "value": round(value, 4)}, 0.0, 0.0, 0.0, "the same counts",
            )  # fmt: skip
    return None


# -- what it all says --------------------------------------------------------------------------------------------------


def ranked(findings: Iterable[Finding | None]) -> list[Finding]:
    """Most certain first, then the largest gain, then the more specific kind; and none that another one explains, nor
    the same estimate twice."""
    kept = [one for one in findings if one is not None]
    kinds = list(KINDS)
    sure = [one for one in kept if one.how in ("certain", "measured")]
    if any(one.kind.startswith("tensor") or one.kind.endswith("-differ") for one in sure):
        kept = [one for one in kept if one.kind not in ("depth-untrained", "domain-shift")]
    kept = sorted(kept, key=lambda one: (ORDER.index(one.how), -_worth(one), kinds.index(one.kind)))
    return [one for at, one in enumerate(kept) if one.how == "certain" or one.kind not in {o.kind for o in kept[:at]}]


def _worth(one: Finding) -> float:
    """What it may gain: certain faults count alike, since what they hide is not known."""
    if one.how == "certain":
        return 0.0
    if one.how == "speed":
        return float(one.evidence["speed_gain"])
    if one.gain is not None:
        return one.gain
    # Bounds are wide, and a difference of a twentieth between two of them says nothing about which is the cause.
    return round(2 * (one.high or 0.0)) / 4


def needed_prompts(now: Lengths) -> int:
    """How many prompts like these a verdict takes."""
    span, prompts = now.span(), sum(1 for steps in now.steps if steps)
    if span is None:
        return max(FEWEST, prompts + 1)
    half = (span.high - span.low) / 2
    return max(prompts, math.ceil(prompts * (half / (PRECISE * now.value)) ** 2))


def verdict(now: Lengths | None, findings: Sequence[Finding], untested: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """(healthy, faults, too few or unexplained; one sentence)."""
    causes = [one for one in findings if one.how != "hint"]
    if now is None or any(one.how == "certain" for one in causes):
        first = causes[0].sentence if causes else "It can't be loaded."
        return "faults", f"{len(causes)} cause{'s' * (len(causes) != 1)}, the first: {first}"
    span, prompts = now.span(), sum(1 for steps in now.steps if steps)
    if (more := needed_prompts(now)) > prompts or span is None:
        return "too few", (
            f"{prompts} prompts with {now.num_steps} steps are too few for a verdict; about {more} like these are "
            "needed."
        )
    if causes:
        return "faults", f"{len(causes)} cause{'s' * (len(causes) != 1)}, the first: {causes[0].sentence}"
    told = f"{now.value:.2f} tokens a step ({span.low:.2f} to {span.high:.2f}) over {now.num_steps:,} steps"
    if now.value < HEALTHY:
        return "unexplained", (
            f"It accepts little, {told}, and nothing of what could be tested explains it; {len(untested)} causes "
            "could not be tested."
        )
    return "healthy", f"The drafter is healthy: {told}, and none of the causes that could be tested was found."


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 4)
