"""The draft tree that is stored with a newly trained drafter, and the numbers that stand beside it. Knows no family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backend.data.answers import Answer
from backend.drafters.base import Drafter
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.loop import Features, TrainResult
from backend.trees import AdaptiveShape, Tree, TreeShape, chain, parse_any_tree
from backend.trees.search import acceptance_length_from_ranks, best_tree_from_ranks
from backend.tuning.fastest_tree import candidate_trees, estimate_trees, fastest

TREE_CONTEXT = 256  #: tokens of context behind which trees are timed
ONE_NODE = TreeShape(((0,),))


def asked_tree(text: str | None, depth: int) -> Tree | None:
    """The tree that is to be stored, where one was named; `chain` is one of the trained depth. Raises HeadwayError."""
    if text is None:
        return None
    tree = chain(depth) if text == "chain" else parse_any_tree(text)
    if isinstance(tree, AdaptiveShape):
        raise HeadwayError(
            "Stops and depths by batch belong to a machine and are not stored with a drafter; store the tree alone."
        )
    return tree


def stored_tree(
    target: Target,
    drafter: Callable[[], Drafter],
    result: TrainResult,
    held: Sequence[Answer],
    nodes: int | None,
    asked: Tree | None = None,
) -> tuple[Tree, list[dict[str, float]]]:
    """The tree to store, and what was measured to choose it.

    The one that was `asked` for. Else, with a given number of nodes, the one with the longest acceptance on the
    held-out positions; else the fastest of all sizes.
    """
    if asked is not None:
        return asked, []
    if result.ranks is None:
        return ONE_NODE, []
    if nodes is not None:
        return best_tree_from_ranks(result.ranks, nodes), []
    text = max((answer.prompt_ids + answer.answer_ids for answer in held), key=len)[:TREE_CONTEXT]
    estimates = estimate_trees(target, drafter(), result.ranks, text, candidate_trees(result.ranks))
    table = [
        {
            "nodes": one.shape.num_nodes,
            "expected_acceptance_length": round(one.acceptance_length, 4),
            "step_ms": round(one.step_ms, 2),
            "expected_tokens_per_s": round(one.tokens_per_s, 2),
        }
        for one in estimates
    ]
    return fastest(estimates).shape, table


def numbers(result: TrainResult, tree: Tree, features: Features, held_out: Features) -> dict[str, Any]:
    """What the drafter reached: counts, held-out rates, the expected acceptance of its tree and the real one."""
    found: dict[str, Any] = {
        "training_positions": len(features),
        "held_out_positions": len(held_out),
        "steps": result.steps,
        "train_s": round(result.train_s, 1),
    }
    if result.evaluation is not None and result.ranks is not None:
        found["held_out"] = {key: round(value, 4) for key, value in result.evaluation.as_metrics().items()}
        found["hit_rates"] = [[round(rate, 5) for rate in row] for row in result.evaluation.hit_rates()]
        if isinstance(tree, TreeShape):  # how a tree grows is not known from ranks alone
            found["expected_acceptance_length"] = round(acceptance_length_from_ranks(tree, result.ranks), 4)
    if result.acceptance_length is not None:
        found["kept_step"] = result.kept_step
        found["decoded_acceptance_length"] = round(result.acceptance_length, 4)
    return found
