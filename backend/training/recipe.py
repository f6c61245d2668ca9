"""From a target's own answers to a drafter folder: split, token map, features, training, tree, checkpoint.

The order of these steps, and what of them goes into the folder. Each step is resumable by itself, so a recipe that was
killed is simply run again with the same request. Knows one family so far; a new one adds a builder to FAMILIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.learning import Evaluation, Learner
from backend.drafters.medusa.checkpoint import save_heads
from backend.drafters.medusa.config import MedusaConfig, MedusaTrainConfig
from backend.drafters.medusa.model import MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.errors import HeadwayError
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.features import TokenizedAnswer, capture
from backend.training.loop import Reporter, TrainResult, train
from backend.training.split import split_held_out
from backend.training.token_map import choose_tokens
from backend.trees import TreeShape
from backend.trees.search import acceptance_length_from_ranks, best_tree_from_ranks


class TrainRequest(BaseModel):
    """Everything that determines a training run besides target and answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("medusa", min_length=1, max_length=80, description="name of the drafter")
    family: str = Field("medusa", description="medusa")
    num_heads: int = Field(4, ge=1, le=16, description="heads; head k guesses the token k + 2 places on")
    num_blocks: int = Field(1, ge=1, le=8, description="residual blocks of each head")
    shared_output: bool = Field(False, description="one output layer for all heads: smaller, a little less accurate")
    draft_vocab_size: int | None = Field(
        8192,
        ge=1,
        description="tokens the heads can draft, the most frequent in the answers; none: the whole vocabulary",
    )
    medusa: MedusaTrainConfig = MedusaTrainConfig()
    loop: TrainConfig = TrainConfig()
    held_out_fraction: float = Field(0.05, gt=0, lt=1, description="part of the prompts kept for evaluation")
    tree_nodes: int = Field(15, ge=1, le=512, description="nodes of the tree stored with the drafter")
    half_precision: bool = Field(True, description="store the weights in float16")


class RecipeReporter(Reporter, Protocol):
    """A training reporter that is also told how far the features are."""

    def captured(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Built:
    """A family's learner for one run, what its map covers, and how it is written."""

    learner: Learner
    covered: float
    save: Callable[[Path, DrafterMeta, torch.dtype], None]


def _build_medusa(request: TrainRequest, target: Target, answers: Sequence[TokenizedAnswer]) -> Built:
    size = None if request.draft_vocab_size is None else min(request.draft_vocab_size, target.vocab_size)
    config = MedusaConfig(
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        num_heads=request.num_heads,
        num_blocks=request.num_blocks,
        shared_output=request.shared_output,
        draft_vocab_size=size,
    )
    tokens, covered = None, 1.0
    if size is not None:
        tokens, covered = choose_tokens(answers, target.vocab_size, size, sorted(target.eos_token_ids))
    heads = MedusaHeads(config)
    heads.initialise(target.lm_head_weight().float(), tokens)
    heads.to(target.device)
    return Built(
        MedusaLearner(heads, request.medusa),
        covered,
        lambda folder, meta, dtype: save_heads(folder, heads, meta, dtype),
    )


#: family -> how its learner is made; the answers are the training ones
FAMILIES: Final[Mapping[str, Callable[[TrainRequest, Target, Sequence[TokenizedAnswer]], Built]]] = {
    "medusa": _build_medusa
}


def train_drafter(
    request: TrainRequest,
    target: Target,
    answers: Sequence[TokenizedAnswer],
    workspace: Path,
    folder: Path,
    reporter: RecipeReporter,
    should_stop: Callable[[], bool] = lambda: False,
    lineage: Mapping[str, Any] | None = None,
) -> TrainResult:
    """Train a drafter on `answers` of `target` and write it to `folder`.

    `workspace` keeps features and training state; with the same request a killed run goes on there. `folder` is written
    only when training is done. Raises HeadwayError, Cancelled when stopped while features are made; a stop during
    training comes back as a result that says so.
    """
    if request.family not in FAMILIES:
        raise HeadwayError(f"{request.family!r} can't be trained; known families are {', '.join(sorted(FAMILIES))}.")
    training, held_out = split_held_out(answers, request.held_out_fraction)
    if not training or not held_out:
        raise HeadwayError(
            f"{len(answers)} answers are too few to train on some and evaluate on others; make more answers "
            "or hold out another fraction."
        )
    built = FAMILIES[request.family](request, target, training)
    features = capture(target, training, workspace / "features", None, reporter.captured, should_stop)
    evaluation = capture(target, held_out, workspace / "held-out", None, reporter.captured, should_stop)
    result = train(request.loop, built.learner, features, evaluation, reporter, should_stop, workspace / "state")
    if result.finish_reason != "done" or result.evaluation is None or result.ranks is None:
        return result
    tree = best_tree_from_ranks(result.ranks, request.tree_nodes)
    meta = DrafterMeta(
        family=request.family,
        name=request.name,
        config={},
        version=target.identity.to_dict(),
        lineage={
            "request": request.model_dump(mode="json"),
            "answers": len(training),
            "positions": len(features),
            "features": features.fingerprint,
            "map_covers": built.covered,
            **(lineage or {}),
        },
        tree=tree.to_json(),
        numbers=_numbers(result, result.evaluation, result.ranks, tree),
    )
    built.save(folder, meta, torch.float16 if request.half_precision else torch.float32)
    return result


def _numbers(result: TrainResult, evaluation: Evaluation, ranks: Tensor, tree: TreeShape) -> dict[str, Any]:
    """What was reached on the held-out answers; counts, so that rates and their uncertainty can be computed when
    shown.
    """
    return {
        "steps": result.steps,
        "train_s": result.train_s,
        "held_out_loss_sum": evaluation.loss_sum.tolist(),
        "held_out_scored": evaluation.scored.tolist(),
        "held_out_positions": evaluation.positions.tolist(),
        "held_out_hits": evaluation.hits.tolist(),
        "expected_acceptance_length": acceptance_length_from_ranks(tree, ranks),
    }
