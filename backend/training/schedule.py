"""Learning rate by step: linear warm-up, then half a cosine. A pure function, so resuming needs no state."""

from __future__ import annotations

import math

from backend.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, total: int) -> float:
    """Rate of step `step` (from 0) of `total`."""
    warmup = int(config.warmup_fraction * total)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)
    low = config.final_fraction
    return config.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
