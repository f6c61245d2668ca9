"""How a race stands: who finished first, by how much, and whether the lanes' texts are what they have to be.

Lanes that decode one version greedily have to write the same text, token for token; where others differ is found and
shown. A lane's time is that of its own steps. Knows records only, as plain dictionaries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
#: of a request: what decides its text besides version and temperature
_DECIDES = ("repetition_penalty", "banned_tokens", "json_schema", "stop", "max_new_tokens")
Ended = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class Lane:
    """A lane at the end of its race.

    Args:
        version: the same for two lanes of one version; tokenizer: the same for two that count the same tokens.
        law: the same for two lanes whose greedy texts have to be equal.
        clock_ms: time of its own steps.
        tokens_per_s, acceptance_length: None without steps.
    """

    letter: str
    ended: Ended
    plain: bool = False
    version: str = ""
    tokenizer: str = ""
    law: str = ""
    temperature: float = 0.0
    approximate: bool = False
    contended: bool = False
    tokens: tuple[int, ...] = ()
    text: str = ""
    num_steps: int = 0
    clock_ms: float = 0.0
    tokens_per_s: float | None = None
    acceptance_length: float | None = None


def lane_of(letter: str, conditions: Mapping[str, Any], result: Mapping[str, Any] | None) -> Lane:
    """From the data of a run's events `started` and `result`; a lane without a result failed, or never began."""
    request, version = conditions.get("request") or {}, conditions.get("version") or {}
    if result is None:
        return Lane(letter, "failed")
    identity = {name: value for name, value in version.items() if name != "template_id"}
    temperature = float(request.get("temperature") or 0.0)
    times = ("draft_ms", "verify_ms", "commit_ms", "overhead_ms")
    return Lane(
        letter,
        "stopped" if result.get("finish_reason") == "cancelled" else "finished",
        plain=conditions.get("family") == "none",
        version=json.dumps(identity, sort_keys=True),
        tokenizer=str(version.get("tokenizer_id", "")),
        law=json.dumps([version, temperature, *(request.get(name) for name in _DECIDES)], sort_keys=True),
        temperature=temperature,
        approximate=request.get("rule") == "typical" and temperature > 0,
        contended=bool(result.get("contended")),
        tokens=tuple(result["tokens"]),
        text=str(result["text"]),
        num_steps=int(result["num_steps"]),
        clock_ms=sum(float(result[name]) for name in times),
        tokens_per_s=result.get("tokens_per_s"),
        acceptance_length=result.get("acceptance_length"),
    )


def standing(lanes: Sequence[Lane]) -> dict[str, Any]:
    """{lanes: [{letter, ended, place, clock_ms, num_tokens, num_steps, tokens_per_s, acceptance_length, ratio}],
    against, speed, texts: [sentence], same, marks}.

    place: 1 for the lane that finished first, None for one that did not finish. ratio: its tokens/s over those of the
    lane `against`, which is plain decoding where one lane is. same: whether the texts that have to be the same are;
    None where none have to. marks: see `marks_of`.
    """
    order = sorted((one for one in lanes if one.ended == "finished"), key=lambda one: one.clock_ms)
    base = _base(order)
    texts, same = _texts(lanes)
    rows = [
        {
            "letter": one.letter,
            "ended": one.ended,
            "place": order.index(one) + 1 if one in order else None,
            "clock_ms": one.clock_ms,
            "num_tokens": len(one.tokens),
            "num_steps": one.num_steps,
            "tokens_per_s": one.tokens_per_s,
            "acceptance_length": one.acceptance_length,
            "ratio": _ratio(one, base),
        }
        for one in lanes
    ]
    return {
        "lanes": rows,
        "against": base.letter if base else None,
        "speed": _speed(lanes, order, base),
        "texts": texts,
        "same": same,
        "marks": marks_of(lanes),
    }


def _base(order: Sequence[Lane]) -> Lane | None:
    """What speeds are compared with: plain decoding of the winner's version, any plain decoding, else the runner-up."""
    if len(order) < 2:
        return None
    plain = [one for one in order if one.plain]
    own = [one for one in plain if one.version == order[0].version]
    return (own or plain or [order[1]])[0]


def _ratio(lane: Lane, base: Lane | None) -> float | None:
    if base is None or not lane.tokens_per_s or not base.tokens_per_s:
        return None
    return lane.tokens_per_s / base.tokens_per_s


def _speed(lanes: Sequence[Lane], order: Sequence[Lane], base: Lane | None) -> str:
    if not order:
        failed = all(one.ended == "failed" for one in lanes)
        return "No lane came to its end." if failed else "The race was stopped before any lane came to its end."
    first = order[0]
    said = f"{first.letter} finished first, after {_time(first.clock_ms)} of its own time"
    if base is None:
        return f"{said}; no other lane came to its end."
    ratio = _ratio(first, base)
    if first is base:
        second = max(order[1:], key=lambda one: one.tokens_per_s or 0.0)
        said = f"{first.letter}, plain decoding, finished first, after {_time(first.clock_ms)} of its own time"
        slower = _ratio(second, base)
        said += f": {second.letter} has {slower:.2f} times its speed" if slower is not None else ""
    elif ratio is not None:
        name = f"plain decoding ({base.letter})" if base.plain else f"{base.letter}, the next"
        said += f": {ratio:.2f} times the speed of {name}"
    notes = []
    if len({len(one.tokens) for one in order}) > 1:
        notes.append("The texts differ in length, so compare the speeds and not the times.")
    if any(one.contended for one in lanes):
        notes.append("The device was shared with other work, which the numbers show.")
    return " ".join([f"{said}.", *notes])


def _time(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


# -- texts ------------------------------------------------------------------------------------------------------------


def _texts(lanes: Sequence[Lane]) -> tuple[list[str], bool | None]:
    """Sentences about the texts, and whether those that have to be the same are."""
    written = [one for one in lanes if one.ended != "failed"]
    groups: dict[str, list[Lane]] = {}
    for one in written:
        groups.setdefault(one.law if one.temperature == 0 else f"{one.letter} alone", []).append(one)
    bound = [group for group in groups.values() if len(group) > 1]
    said, same = [], True
    for first, *others in bound:
        apart = [(one, place) for one in others if (place := first_difference(first, one)) is not None]
        same = same and not apart
        equal = [one.letter for one in (first, *others) if one not in [other for other, _ in apart]]
        if len(equal) > 1:
            whole = all(one.ended == "finished" for one in (first, *others))
            so_far = "" if whole else " as far as each got"
            said.append(f"{_listed(equal)} wrote the same text{so_far}, token for token, as greedy lanes must.")
        said += [
            f"{one.letter}'s text leaves {first.letter}'s at {place}, although both are greedy and of one version: two "
            "tokens may have been equally likely there; the Audit page tells whether more is wrong."
            for one, place in apart
        ]
    for group in list(groups.values())[1:]:
        said.append(_beside(written[0], group[0]))
    return said, same if bound else None


def _beside(first: Lane, other: Lane) -> str:
    """About two lanes whose texts need not be equal."""
    why = "the lanes decode under different settings"
    if other.version != first.version:
        why = "they are different versions"
    elif first.temperature > 0 or other.temperature > 0:
        why = "at a temperature above 0 each lane draws its own tokens"
    place = first_difference(first, other)
    if place is None:
        return f"{other.letter} and {first.letter} wrote the same text, though {why}."
    approximate = " (the typical rule is approximate)" if other.approximate or first.approximate else ""
    return f"{other.letter}'s text leaves {first.letter}'s at {place}: {why}{approximate}."


def first_difference(first: Lane, other: Lane) -> str | None:
    """Where the texts part, such as "token 17"; None when they are equal, or one that was stopped is a start."""
    if first.tokenizer == other.tokenizer:
        place = _parting(first.tokens, other.tokens, first.ended == other.ended == "finished")
        return None if place is None else f"token {place + 1}"
    place = _parting(first.text, other.text, first.ended == other.ended == "finished")
    return None if place is None else f"character {place + 1}"


def _parting(one: Sequence[Any], other: Sequence[Any], whole: bool) -> int | None:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other)) if whole and len(one) != len(other) else None


def marks_of(lanes: Sequence[Lane]) -> dict[str, dict[str, Any]]:
    """Where texts differ from that of the first lane that wrote one, for each lane that does:
    {letter: {against, at, stretches: [[start, end]]}} in characters; `at` is where it leaves the other text. The first
    lane itself has what differs from any other, and against and at None.
    """
    written = [one for one in lanes if one.ended != "failed"]
    found: dict[str, dict[str, Any]] = {}
    own: set[tuple[int, int]] = set()
    for one in written[1:]:
        first = written[0]
        whole = first.ended == one.ended == "finished"
        at = _parting(first.text, one.text, whole)
        if at is None:
            continue
        shorter = min(len(first.text), len(one.text))
        texts = (first.text, one.text) if whole else (first.text[:shorter], one.text[:shorter])
        pairs = list(stretches(*texts))
        own |= {a for a, _ in pairs if a[0] < a[1]}
        kept = [list(b) for _, b in pairs if b[0] < b[1]]
        found[one.letter] = {"against": first.letter, "at": at, "stretches": kept}
    if own:
        found[written[0].letter] = {"against": None, "at": None, "stretches": [list(one) for one in _joined(own)]}
    return found


def stretches(one: str, other: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The places, in characters, at which two texts differ by whole words: ((start, end) of one, of the other)."""
    words, others = _WORDS.findall(one), _WORDS.findall(other)
    places, other_places = _places(words), _places(others)
    for kind, a, b, c, d in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if kind != "equal":
            yield (places[a], places[b]), (other_places[c], other_places[d])


def _places(words: Sequence[str]) -> list[int]:
    found = [0]
    for word in words:
        found.append(found[-1] + len(word))
    return found


def _joined(spans: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same characters in spans that don't overlap."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _listed(letters: Sequence[str]) -> str:
    return f"{', '.join(letters[:-1])} and {letters[-1]}"
