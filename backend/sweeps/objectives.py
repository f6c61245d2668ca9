"""What is wanted of a setting: figures of a trial, which way is better, and when one trial beats another.

Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from backend.errors import HeadwayError

ObjectiveName = Literal["speed", "speedup", "acceptance_length", "drift", "train_s"]


@dataclass(frozen=True)
class Objective:
    """One figure to make great or small. `per_prompt`: it is measured on every prompt, so two trials can be paired."""

    name: ObjectiveName
    label: str
    maximize: bool
    help: str
    per_prompt: bool = True


def _objectives() -> tuple[Objective, ...]:
    return (
        Objective("speed", "Tokens/s", True, "tokens a second in all rows together, reading of prompts left out"),
        Objective("speedup", "Speedup", True, "tokens a second over plain decoding of the first prompts, in turns"),
        Objective("acceptance_length", "Acceptance length", True, "tokens a step: the same on every machine"),
        Objective(
            "drift", "Drift", False, "distance of the emitted law from the target's: mean total variation, 0 to 1"
        ),
        Objective("train_s", "Training time", False, "seconds the training took", per_prompt=False),
    )


OBJECTIVES: Final[Mapping[str, Objective]] = MappingProxyType({one.name: one for one in _objectives()})


def chosen(names: Sequence[str]) -> tuple[Objective, ...]:
    """Raises HeadwayError for an unknown or repeated name."""
    if not names:
        raise HeadwayError("Say what the sweep is for: give at least one objective.")
    for name in names:
        if name not in OBJECTIVES:
            raise HeadwayError(f"There is no objective named {name!r}; there are {', '.join(OBJECTIVES)}.")
    if len(set(names)) < len(names):
        raise HeadwayError("An objective stands there twice; name it once.")
    return tuple(OBJECTIVES[name] for name in names)


def dominates(one: Sequence[float], other: Sequence[float], objectives: Sequence[Objective]) -> bool:
    """Whether `one` is nowhere worse than `other` and somewhere better."""
    signed = [(a - b) if goal.maximize else (b - a) for a, b, goal in zip(one, other, objectives, strict=True)]
    return all(gain >= 0 for gain in signed) and any(gain > 0 for gain in signed)


def front(points: Mapping[int, Sequence[float]], objectives: Sequence[Objective]) -> list[int]:
    """The numbers of the points that no other dominates, the best in the first objective first."""
    ordered = sorted(points, key=lambda number: _signed(points[number], objectives), reverse=True)
    kept: list[int] = []
    for number in ordered:  # nothing later in this order can dominate an earlier one
        if not any(dominates(points[other], points[number], objectives) for other in kept):
            kept.append(number)
    return kept


def _signed(point: Sequence[float], objectives: Sequence[Objective]) -> tuple[float, ...]:
    return tuple(value if goal.maximize else -value for value, goal in zip(point, objectives, strict=True))
