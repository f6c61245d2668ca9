"""Calibrations made of chance, with known rates. Knows no test."""

from __future__ import annotations

import numpy as np

from backend.analysis.calibration import MISS, Walk, kept_confidence
from backend.trees import product
from backend.tuning.calibration import Calibration
from backend.tuning.cost_curve import CostCurve, PassCost, StepCost

RATES = [[0.5, 0.2, 0.1], [0.4, 0.15, 0.1], [0.3, 0.1, 0.1]]
SHAPE = product([3, 3, 3])


def walk(prompt: str, rng: np.random.Generator, positions: int = 60, confidence: float | None = None) -> Walk:
    """Independent depths with the rates above. The confidence of a first rank tells whether it is right, mostly."""
    ranks = np.full((positions, 3), MISS, dtype=np.int8)
    for depth, row in enumerate(RATES):
        drawn = rng.random(positions)
        for rank, edge in enumerate(np.cumsum(row)):
            ranks[(drawn < edge) & (ranks[:, depth] == MISS), depth] = rank
    probs = np.full((positions, SHAPE.num_nodes), 0.2)
    for place, path in enumerate(SHAPE.paths):
        if path[-1] == 0:
            right = ranks[:, len(path) - 1] == 0
            probs[:, place] = np.where(right, 0.8, 0.3) if confidence is None else confidence
    return Walk(prompt, "xy"[int(prompt) % 2], 0.0, 40, ranks, kept_confidence(probs))


def calibration(prompts: int = 40, seed: int = 0, confidence: float | None = None, positions: int = 60) -> Calibration:
    rng = np.random.default_rng(seed)
    walks = tuple(walk(str(number), rng, confidence=confidence) for number in range(prompts))
    about = {
        "version": {"weights_id": "v"}, "dtype": "float32", "target": "tiny-llama",
        "drafter": {"spec": "heads", "name": "heads", "family": "medusa", "grows": True, "tree_paths": [[0]]},
    }  # fmt: skip
    return Calibration(SHAPE, 3, True, walks, about)


def cost(slope: float = 1.0, conditions: dict[str, object] | None = None) -> CostCurve:
    """Passes of 20 ms and `slope` a row beyond one; drafting takes 1 ms and 0.5 a level."""
    rows = (1, 2, 4, 8, 16, 32, 64)
    passes = [PassCost(n, b, 128, (20 + slope * (b * n - 1)), (19 + slope * (b * n - 1)), (21 + slope * (b * n - 1)), 5)
              for b in (1, 4, 16) for n in rows]  # fmt: skip
    steps = [StepCost(0, 0, 0, 1, 0.0, 0.5, 5)]
    steps += [StepCost(d, d - 1, d, 1, 1 + 0.5 * d, 0.5, 5) for d in (1, 2, 3)]
    steps += [StepCost(d, 5 * (d - 1), 20, 1, 1 + 0.5 * d, 0.5, 5) for d in (2, 3)]
    return CostCurve(tuple(passes), tuple(steps), "heads", conditions or {})
