"""What drafting costs here, in units of a plain step: measured on a short text when a target is loaded.

A drafter that costs 0.1 has to win a tenth of a token a step before it wins anything. Knows how to run a few steps;
keeps nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import StepTrace
from backend.drafters.base import Drafter
from backend.drafters.plain.drafter import PlainDrafter
from backend.targets.target import Target

STEPS = 6
TEXT = "The quick brown fox jumps over the lazy dog, and the lazy dog looks up at the quick brown fox."


def drafting_costs(target: Target, drafters: Sequence[Drafter]) -> list[float]:
    """Median drafting time of each drafter over the median plain step; one throw-away step before each warms up."""
    plain = statistics.median(step.step_ms for step in _steps(target, PlainDrafter()))
    return [statistics.median(step.draft_ms for step in _steps(target, drafter)) / plain for drafter in drafters]


def warm_up(target: Target, drafter: Drafter) -> None:
    """A few steps that nobody counts: the first ones of a drafter and tree choose kernels and fill caches.

    Raises HeadwayError for a target whose context is too short for them.
    """
    _steps(target, drafter, 2)


def _steps(target: Target, drafter: Drafter, count: int = STEPS) -> list[StepTrace]:
    prompt = list(target.tokenizer(TEXT)["input_ids"])
    found: list[StepTrace] = []
    settings = DecodeSettings(max_new_tokens=8 * (count + 1) + 1, ignore_eos=True)
    for record in decode(target, drafter, [prompt], settings, cancelled=lambda: len(found) > count):
        if isinstance(record, StepTrace):
            found.append(record)
    return found[1:] or found
