"""How wide the narrowest pass should be on this machine.

One would think that a pass over one row is the fastest of all. With packed weights on some processors it is not: four
or five rows go through another kernel and take less time (on two Zen 4 cores about 8 % less). Plain decoding then gains
from padding its single root, and a comparison with drafting is fair only if it does. Measured at load and kept short;
knows passes and a clock.
"""

from __future__ import annotations

import statistics
import time

import torch

from backend.targets.packed_linear import can_pack
from backend.targets.target import Target
from backend.trees import DraftTree

WIDTHS = (1, 4, 5, 8)
ROUNDS, FEWEST_ROUNDS, BUDGET_S = 9, 3, 2.5
GAIN = 0.03  #: a wider pass must be faster by this share, so that chance does not decide


def fastest_width(target: Target) -> int:
    """The width to pad single rows to; 1 where padding can't help or there is no time to find out."""
    if not can_pack(target.lm_head_weight()):
        return 1
    cache = target.new_cache(1, 32 + max(WIDTHS))
    target.prefill(cache, 0, [0] * 32)
    root = DraftTree.root_only(torch.zeros(1, dtype=torch.int64, device=target.device))
    trees = {width: root.padded(width) for width in WIDTHS}
    times: dict[int, list[float]] = {width: [] for width in WIDTHS}
    started = time.perf_counter()
    for number in range(ROUNDS + 1):
        for width, tree in trees.items():
            before = time.perf_counter()
            target.tree_pass(cache, tree)
            if number:  # the first round warms up
                times[width].append(time.perf_counter() - before)
        if time.perf_counter() - started > BUDGET_S:
            break
    if len(times[1]) < FEWEST_ROUNDS:
        return 1
    middle = {width: statistics.median(values) for width, values in times.items()}
    best = min(middle, key=lambda width: middle[width])
    return best if middle[best] < (1 - GAIN) * middle[1] else 1
