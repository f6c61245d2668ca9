"""How good a drafter that is still being trained really is: a few held-out prompts decoded greedily with it.

Losses and hit rates look at each head alone; acceptance is about all of them together, on text the target is writing.
Always a chain of the full depth, so that numbers of one run compare. Counts greedy tokens, so the result depends on
nothing but weights and prompts. Knows the loop, no family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.acceptance import Rule
from backend.decoding.loop import DecodeSettings, decode
from backend.decoding.records import DecodeResult
from backend.drafters.base import Drafter
from backend.targets.target import Target
from backend.training.features import TokenizedAnswer


@dataclass(frozen=True)
class Judge:
    """Call it to get the acceptance length now; `drafter` makes a drafter of the current weights."""

    target: Target
    drafter: Callable[[], Drafter]
    prompts: Sequence[Sequence[int]]
    max_new_tokens: int

    def __call__(self) -> float | None:
        """Accepted tokens + 1 a step, over all steps of all prompts; None when there was no step."""
        steps = accepted = 0
        settings = DecodeSettings(self.max_new_tokens, Rule("greedy"))
        for record in decode(self.target, self.drafter(), self.prompts, settings, max(1, len(self.prompts))):
            if isinstance(record, DecodeResult):
                steps, accepted = steps + record.num_steps, accepted + record.num_accepted
        return 1 + accepted / steps if steps else None


def judged_prompts(answers: Sequence[TokenizedAnswer], count: int, longest: int) -> list[list[int]]:
    """The first `count` different prompts of held-out answers that have at most `longest` tokens."""
    found: dict[tuple[int, ...], None] = {}
    for answer in answers:
        if 0 < len(answer.prompt_ids) <= longest:
            found.setdefault(tuple(answer.prompt_ids))
    return [list(prompt) for prompt in list(found)[:count]]
