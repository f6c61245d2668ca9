"""Giving up on a trial that has no chance: Wilcoxon's test on the prompts it has answered so far, paired with a better
trial's answers to the same prompts.

With several objectives a trial is given up only when one and the same other trial beats it in each of them. It is
looked at after every prompt, so the chance of losing a good one is somewhat above the level. Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backend.sweeps.objectives import Objective
from backend.sweeps.trial import PromptFigures, Trial, by_key
from backend.sweeps.wilcoxon import FEWEST, p_greater

CANDIDATES = 8  #: of the best trials, that a running one is held against


def better_trial(
    so_far: Sequence[PromptFigures],
    plain_speed: float | None,
    others: Iterable[Trial],
    objectives: Sequence[Objective],
    level: float,
) -> Trial | None:
    """The first of `others` that is better in every objective with p < level; None when none is, or too little is
    known, or an objective has no figure on single prompts.
    """
    if len(so_far) < FEWEST or not all(goal.per_prompt for goal in objectives):
        return None
    return next((one for one in others if all(_beats(one, so_far, plain_speed, g, level) for g in objectives)), None)


def _beats(
    other: Trial, so_far: Sequence[PromptFigures], plain_speed: float | None, goal: Objective, level: float
) -> bool:
    theirs = by_key(other.prompts)
    both = plain_speed and other.plain_speed  # in units of plain decoding only where both know it
    gains = []
    for mine in so_far:
        if mine.key not in theirs:
            continue
        here = mine.figure(goal.name, plain_speed if both else None)
        there = theirs[mine.key].figure(goal.name, other.plain_speed if both else None)
        if here is not None and there is not None:
            gains.append(there - here if goal.maximize else here - there)
    return len(gains) >= FEWEST and p_greater(gains) < level


def worth_comparing(trials: Iterable[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """The trials that a running one is held against: feasible, measured to the end, the best in any objective first."""
    known = [(one, goals) for one in trials if one.feasible and (goals := one.goals(objectives)) is not None]
    chosen: dict[int, Trial] = {}
    for place, goal in enumerate(objectives):
        ranked = sorted(known, key=lambda pair: pair[1][place], reverse=goal.maximize)
        chosen |= {one.number: one for one, _ in ranked[: max(1, CANDIDATES // len(objectives))]}
    return list(chosen.values())
