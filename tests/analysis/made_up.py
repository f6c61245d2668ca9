"""Made-up answers that obey the arithmetic of real ones. Knows no test."""

from __future__ import annotations

import random
from dataclasses import replace

from backend.analysis.counts import PromptCounts
from backend.analysis.evaluation import PLAIN, Part


def answer(rng: random.Random, prompt: str, category: str, depth: int, speed: float = 1.0) -> PromptCounts:
    """An answer by a drafter of `depth` levels (0: plain) whose steps take 1 / speed of a plain one's time."""
    steps = rng.randrange(0, 12)
    hits = [rng.randrange(0, depth + 1) for _ in range(steps)]
    tries = [min(depth, hit + rng.randrange(2)) for hit in hits]
    deepest = max(tries, default=0)
    cut = rng.randrange(0, hits[-1] + 1) if hits else 0
    tokens = 1 + steps + sum(hits) - cut
    shares = [sum(rng.uniform(0.9, 1.3) * part for _ in range(steps)) / speed for part in (0.1 * (depth > 0), 9.0, 0.4)]
    return PromptCounts(
        prompt=prompt,
        category=category,
        prompt_tokens=rng.randrange(1, 50),
        num_tokens=tokens,
        num_steps=steps,
        num_drafted=sum(tries),
        num_accepted=sum(hits),
        num_cut=cut,
        accepted_per_depth=tuple(sum(hit > d for hit in hits) for d in range(deepest)),
        drafted_per_depth=tuple(sum(tried > d for tried in tries) for d in range(deepest)),
        num_repeated=rng.randrange(0, tokens + 1),
        digest=rng.choice("ab"),
        finish_reason="length",
        prefill_ms=rng.uniform(5, 9),
        draft_ms=shares[0],
        verify_ms=shares[1],
        other_ms=shares[2],
        row_ms=sum(shares) * rng.choice([1.0, 1.8]),
    )


def parts(seed: int, prompts: int = 9) -> list[Part]:
    """Two sets, two temperatures; plain decoding, a good drafter and one that is as fast as plain decoding."""
    rng, found = random.Random(seed), []
    for name in ("poems", "proofs"):
        for temperature in (0.0, 1.0):
            for number in range(prompts):
                for contender, depth, speed in ((PLAIN, 0, 1.0), ("good", 3, 0.97), ("idle", 2, 0.5)):
                    one = answer(rng, f"q{number}", "odd" if number % 2 else "even", depth, speed)
                    found.append(Part(contender, name, temperature, 1, (one,), rng.random() < 0.02, rng.random()))
    rng.shuffle(found)
    return found


def measured_again(part: Part) -> Part:
    """The same part with other times."""
    slower = tuple(replace(one, verify_ms=2 * one.verify_ms, prefill_ms=1.0) for one in part.answers)
    return replace(part, answers=slower)
