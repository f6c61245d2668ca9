"""How good a drafter that is still being trained really is: a few held-out prompts decoded greedily with it.

Losses and hit rates look at each head alone; acceptance is about all of them together, on text the target is writing.
Always a chain of the full depth, so that numbers of one run compare. Counts greedy tokens, so the result depends on
nothing but weights and prompts. Knows the decode loop, no family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.targets.target import Target
from backend.training.features import TokenizedAnswer


@dataclass(frozen=True)
class Judged:
    """Counts over all steps of all prompts.

    accepted_per_depth: entry d-1 counts the steps that accepted depth d; drafted_per_depth: those that accepted depth
    d-1 and drafted a child there.
    """

    steps: int
    accepted: int
    accepted_per_depth: tuple[int, ...]
    drafted_per_depth: tuple[int, ...]

    @property
    def acceptance_length(self) -> float:
        """Accepted tokens + 1 a step."""
        return 1 + self.accepted / self.steps

    def as_metrics(self) -> dict[str, float]:
        """The acceptance length, and the acceptance of each depth, marginal and, where it was ever tried,
        conditional on that of the depth before.
        """
        metrics = {"acceptance_length": self.acceptance_length}
        for depth, (accepted, drafted) in enumerate(
            zip(self.accepted_per_depth, self.drafted_per_depth, strict=True)
        ):
            metrics[f"accept_marginal_{depth}"] = accepted / self.steps
            if drafted:
                metrics[f"accept_conditional_{depth}"] = accepted / drafted
        return metrics


@dataclass(frozen=True)
class Judge:
    """Call it to see how the drafter does now; `drafter` makes a drafter of the current weights."""

    target: Target
    drafter: Callable[[], Drafter]
    prompts: Sequence[Sequence[int]]
    max_new_tokens: int

    def __call__(self) -> Judged | None:
        """Counts over all steps of all prompts; None when there was no step."""
        drafter = self.drafter()
        settings = DecodeSettings(self.max_new_tokens, Rule("greedy"))
        records = decode(self.target, drafter, self.prompts, settings, max(1, len(self.prompts)))
        results = [record for record in records if isinstance(record, DecodeResult)]
        steps = sum(result.num_steps for result in results)
        if not steps:
            return None
        none = [0] * drafter.shape.max_depth  # depths that were never reached are counted too
        accepted, drafted = (
            tuple(map(sum, zip_longest(none, *(getattr(result, name) for result in results), fillvalue=0)))
            for name in ("accepted_per_depth", "drafted_per_depth")
        )
        return Judged(steps, sum(result.num_accepted for result in results), accepted, drafted)


def judged_prompts(answers: Sequence[TokenizedAnswer], count: int, longest: int) -> list[list[int]]:
    """The first `count` different prompts of held-out answers that have at most `longest` tokens."""
    found: dict[tuple[int, ...], None] = {}
    for answer in answers:
        if 0 < len(answer.prompt_ids) <= longest:
            found.setdefault(tuple(answer.prompt_ids))
    return [list(prompt) for prompt in list(found)[:count]]
