"""The same prompts decoded by Headway and by a server, held against each other: acceptance at each position, by domain
and by length of the prompt, whether the texts are equal, and what is likely wrong where they differ. Pure.

Both sides count like this: a step is one draft, the token out of the prompt is in none, and accepted tokens are counted
before an answer is cut at its end token or limit. Rates are marginal: steps that accepted the position over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

CLOSE: Final = 0.02  #: two rates that differ by no more count as the same
CONTEXTS: Final = (64, 128, 256, 512, 1024, 2048)  #: upper ends of the classes of prompt lengths, in tokens


@dataclass(frozen=True)
class Drafted:
    """One side's steps over one answer. `accepted`: entry i counts the steps that accepted position i (from 0)."""

    steps: int
    accepted: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """One prompt on both sides; `plain`: the server's answer without a drafter, None where it was not asked."""

    id: str
    category: str
    prompt_tokens: int
    own: Drafted
    served: Drafted
    plain: tuple[int, ...] | None = None


def from_histogram(histogram: Sequence[int] | Mapping[str, int]) -> tuple[int, ...]:
    """Steps that accepted each position, from how many steps accepted 0, 1, 2, ... tokens."""
    counts = (
        {int(key): int(value) for key, value in histogram.items()}
        if isinstance(histogram, Mapping)
        else dict(enumerate(map(int, histogram)))
    )
    return tuple(sum(count for n, count in counts.items() if n > place) for place in range(max(counts, default=0)))


def compare(pairs: Sequence[Pair], findings: Sequence[str] = ()) -> dict[str, Any]:
    """{positions, largest_difference, domains, contexts, equal, causes}; `findings`: what the check said."""
    positions = by_position(pairs)
    equal = equality(pairs)
    return {
        "positions": positions,
        "largest_difference": max((abs(row["difference"]) for row in positions), default=None),
        "domains": _grouped(pairs, lambda pair: pair.category or "none"),
        "contexts": _grouped(pairs, lambda pair: context_class(pair.prompt_tokens), context_class_order),
        "equal": equal,
        "causes": causes(positions, equal, findings),
    }


def by_position(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """[{position, own, served, difference, own_steps, served_steps}], positions from 1, over all steps of all pairs."""
    listed = list(pairs)
    own_steps, served_steps = sum(p.own.steps for p in listed), sum(p.served.steps for p in listed)
    if not own_steps or not served_steps:
        return []
    depth = max((max(len(p.own.accepted), len(p.served.accepted)) for p in listed), default=0)
    rows = []
    for place in range(depth):
        own = sum(p.own.accepted[place] for p in listed if place < len(p.own.accepted)) / own_steps
        served = sum(p.served.accepted[place] for p in listed if place < len(p.served.accepted)) / served_steps
        rows.append({
            "position": place + 1, "own": own, "served": served, "difference": served - own,
            "own_steps": own_steps, "served_steps": served_steps,
        })  # fmt: skip
    return rows


def equality(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many answers are equal token by token: the server's with drafts and without, and the server's and Headway's.
    `differ`: ids of prompts whose drafted answer differs from the server's plain one, with the first different token.
    """
    asked = [pair for pair in pairs if pair.plain is not None]
    differ = [
        {"id": pair.id, "at": first_difference(pair.served.tokens, pair.plain or ())}
        for pair in asked
        if pair.served.tokens != pair.plain
    ]
    return {
        "with_and_without": {"same": len(asked) - len(differ), "of": len(asked)} if asked else None,
        "served_and_own": {"same": sum(p.served.tokens == p.own.tokens for p in pairs), "of": len(pairs)},
        "differ": differ,
    }


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """Index of the first token that differs, the shorter length when one begins with the other."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def causes(positions: Sequence[Mapping[str, Any]], equal: Mapping[str, Any], findings: Sequence[str]) -> list[str]:
    """Sentences on what is likely, most likely first; one that says so when nothing differs."""
    found = [f"The check says of the drafter's folder: {finding}" for finding in findings]
    if not positions:
        return [*found, "One side drafted nothing, so there is nothing to compare."]
    first, rest = positions[0], positions[1:]
    if first["served"] < 0.01 <= first["own"] - CLOSE:
        found.append(
            "The server accepts next to nothing from the first position on: it drafts in other token ids (a vocabulary "
            "map that is missing), or reads other states than the head was trained on."
        )
    elif first["difference"] < -CLOSE:
        found.append(
            "The first position is already lower on the server: it reads the target one layer off, misses a bias or a "
            "norm, or serves other weights or another dtype than the drafter was trained on."
        )
    elif any(row["difference"] < -CLOSE for row in rest):
        found.append(
            "The first position agrees and later ones are lower on the server: heads in another order, a state handed "
            "on before instead of after a norm, or a wrong rate of rotation (rope_theta) in the drafter's config."
        )
    elif any(row["difference"] > CLOSE for row in positions):
        found.append(
            "The server accepts more than Headway does on the same prompts: the two did not see the same text or the "
            "same drafter; look at where their answers part."
        )
    both, own = equal["with_and_without"], equal["served_and_own"]
    if both is not None and both["same"] < both["of"]:
        found.append(
            f"{both['of'] - both['same']} answers change when the server drafts: in float32 that points to a fault, in "
            "half precision two nearly equal logits are enough."
        )
    if own["same"] < own["of"]:
        found.append(
            f"{own['of'] - own['same']} answers differ between Headway and the server, so from there on the two draft "
            "along different texts; usually two nearly equal logits, else another version of the target."
        )
    return found or ["Both sides agree."]


def context_class(tokens: int) -> str:
    """ "up to 64", ..., "more than 2048": a class of prompt lengths."""
    for end in CONTEXTS:
        if tokens <= end:
            return f"up to {end}"
    return f"more than {CONTEXTS[-1]}"


def context_class_order(label: str) -> int:
    """For sorting the classes."""
    return int(label.split()[-1]) + label.startswith("more")


def _grouped(
    pairs: Sequence[Pair], of: Callable[[Pair], str], order: Callable[[str], Any] = lambda label: label
) -> list[dict[str, Any]]:
    labels = sorted({of(pair) for pair in pairs}, key=order)
    found = []
    for label in labels:
        inside = [pair for pair in pairs if of(pair) == label]
        found.append({"label": label, "prompts": len(inside), "positions": by_position(inside)})
    return found
