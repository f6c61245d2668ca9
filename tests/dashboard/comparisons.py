"""Made-up evaluations to compare, of any size, in a real store. Knows no test."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import PLAIN, Part
from backend.data.messages import asked_hash
from backend.jobs.evaluate_config import SETUP
from storage import Store
from tests.dashboard.evaluations import setup

CATEGORIES = ("code", "chat", "maths")


def answered(rng: random.Random, prompt: str, category: str, depth: int, easy: float) -> PromptCounts:
    """An answer of some 100 tokens by a drafter that is right with this probability, to `depth` levels."""
    steps = rng.randrange(30, 60)
    accepted = [0] * depth
    for _ in range(steps):
        for level in range(depth):
            if rng.random() >= easy:
                break
            accepted[level] += 1
    tokens = 1 + steps + sum(accepted)
    drafted = [steps, *accepted[:-1]] if depth else []
    return PromptCounts(
        prompt=prompt, category=category, prompt_tokens=20, num_tokens=tokens, num_steps=steps,
        num_drafted=sum(drafted), num_accepted=sum(accepted), num_cut=0, accepted_per_depth=tuple(accepted),
        drafted_per_depth=tuple(drafted), num_repeated=0, digest=rng.choice("abc"), finish_reason="length",
        prefill_ms=30.0, draft_ms=1.5 * steps * (depth > 0), verify_ms=20.0 * steps * rng.uniform(0.95, 1.05),
        other_ms=0.5 * steps, row_ms=22.0 * steps,
    )  # fmt: skip


def add_compared(
    store: Store,
    name: str,
    easy: dict[str, float],
    prompts: int = 12,
    first: int = 0,
    temperatures: Sequence[float] = (0.0,),
    asked: bool = True,
    **changes: Any,
) -> str:
    """A finished evaluation of plain decoding and one contender for each probability in `easy`; its job's id."""
    made = store.create_job(kind="evaluate", name=name, config={"prompts": ["poems.jsonl"], "target": "smollm2-135m"})
    leased = store.lease_job("host:1:x", job_id=made.id)
    assert leased is not None
    numbers = range(first, first + prompts)
    conditions = setup() | {"sets": {"poems": {"prompts": prompts, "broken": 0, "left_out": 0,
                                               "ids": [f"q{number}" for number in numbers]}}}  # fmt: skip
    conditions["contenders"] |= {key: conditions["contenders"]["good"] | {"spec": key, "name": key} for key in easy}
    if asked:
        hashes = [asked_hash([{"role": "user", "content": f"question {number}"}]) for number in numbers]
        conditions["asked"] = {"poems": hashes}
    items: dict[str, dict[str, Any]] = {SETUP: conditions | changes}
    rng = random.Random(name)
    for number in numbers:
        hard = random.Random(number).uniform(0.6, 1.1)
        for temperature in temperatures:
            for contender, right in {PLAIN: 0.0, **easy}.items():
                depth = 0 if contender == PLAIN else 3
                one = answered(rng, f"q{number}", CATEGORIES[number % 3], depth, min(0.95, right * hard))
                part = Part(contender, "poems", temperature, 1, (one,), False, 0.0)
                items[f"{number} {temperature} {contender}"] = part.to_dict()
    store.put_items(leased.id, leased.attempt, items)
    store.end_job(leased.id, leased.attempt, "finished", result={})
    return leased.id
