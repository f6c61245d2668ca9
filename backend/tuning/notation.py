"""A tree in the words of those who serve it. Every count of ours is N, drafted nodes; theirs often is N + 1.

Knows shapes and numbers of other programs; imports none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.trees.shapes import TreeShape


def notations(shape: TreeShape) -> dict[str, Any]:
    """Medusa's choices for the tree itself; EAGLE's and SGLang's three numbers for the dynamic tree nearest to it."""
    width = max(shape.max_children, default=0)
    return {"medusa_choices": shape.to_json(), **three_numbers(shape.max_depth, width, shape.num_nodes)}


def three_numbers(levels: int, top_k: int, num_nodes: int) -> dict[str, Any]:
    """EAGLE counts the root in `total_token` and not the first level in `depth`; SGLang counts the root too."""
    return {
        "eagle": {"total_token": num_nodes + 1, "depth": max(0, levels - 1), "top_k": top_k},
        "sglang": {
            "speculative_num_steps": levels,
            "speculative_eagle_topk": top_k,
            "speculative_num_draft_tokens": num_nodes + 1,
        },
    }


def vllm_schedule(depths: Sequence[tuple[int, int]]) -> list[list[int]]:
    """`num_speculative_tokens_per_batch_size`: [from, to, tokens] out of (batch, best depth of a chain) in order.

    A batch that was not looked at takes the depth of the next smaller one, and 1 begins the table.
    """
    found: list[list[int]] = []
    for number, (batch, depth) in enumerate(depths):
        first = 1 if number == 0 else batch
        last = depths[number + 1][0] - 1 if number + 1 < len(depths) else batch
        if found and found[-1][2] == depth:
            found[-1][1] = last
        else:
            found.append([first, last, depth])
    return found


def sglang_schedule(depths: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """Adaptive steps: from which batch on which number of steps may be used; 0 switches speculation off."""
    found: dict[str, list[int]] = {}
    last = None
    for batch, depth in depths:
        if depth != last:
            found[str(batch)] = [depth]
            last = depth
    return found
