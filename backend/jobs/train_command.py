"""`train`: Medusa heads from distilled answers, from cached features to a drafter folder with its tree and the numbers
it reached.

Everything on the way can be killed and started again: features go on at the next shard, training at the last
checkpoint.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from backend.data.answers import Answer, read_answers, unpack_answers
from backend.drafters.checkpoint import DrafterMeta
from backend.drafters.medusa.checkpoint import save_heads
from backend.drafters.medusa.config import MedusaConfig, MedusaTrainConfig
from backend.drafters.medusa.drafter import MedusaDrafter
from backend.drafters.medusa.model import HeadsForDrafting, MedusaHeads
from backend.drafters.medusa.train import MedusaLearner
from backend.engine.conditions import device_name, packages
from backend.errors import HeadwayError
from backend.jobs.console import counting_bar, loading_bar, say
from backend.jobs.decode_command import add_machine_arguments
from backend.settings import Settings
from backend.targets.opening import open_target
from backend.targets.target import Target
from backend.training.config import TrainConfig
from backend.training.features import FeatureStore, capture
from backend.training.loop import TrainResult, train
from backend.training.split import split_held_out
from backend.training.token_map import choose_tokens
from backend.trees import TreeShape
from backend.trees.search import acceptance_length_from_ranks, best_tree_from_ranks
from backend.tuning.fastest_tree import candidate_trees, estimate_trees, fastest

TREE_CONTEXT = 256  #: tokens of context behind which trees are timed
HELD_OUT = 0.05  #: part of the prompts that is measured on and never trained on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument("--target", default="smollm2-135m", help="built-in name, folder, GGUF file or hub id")
    what.add_argument(
        "--answers", required=True, metavar="FILE", help="what `distill` wrote: its JSONL or its packed .npz"
    )
    what.add_argument("--out", required=True, metavar="FOLDER", help="folder the heads are written to")
    what.add_argument("--name", help="name of the heads (default: the folder's)")
    what.add_argument("--half", action="store_true", help="store the heads in half precision")
    what.add_argument(
        "--tree-nodes",
        type=int,
        metavar="N",
        help="drafted nodes of the stored tree; default: the fastest measured here",
    )
    heads = parser.add_argument_group("heads")
    heads.add_argument("--num-heads", type=int, default=MedusaConfig.model_fields["num_heads"].default)
    heads.add_argument("--num-blocks", type=int, default=MedusaConfig.model_fields["num_blocks"].default)
    heads.add_argument("--shared-output", action="store_true", help="one output layer for all heads")
    heads.add_argument("--draft-vocab", type=int, default=8192, metavar="Vd", help="tokens the heads can draft; 0: all")
    loop = parser.add_argument_group("training")
    for name in ("epochs", "batch_tokens", "learning_rate", "seed"):
        field = TrainConfig.model_fields[name]
        kind = int if name in ("batch_tokens", "seed") else float
        loop.add_argument(f"--{name.replace('_', '-')}", type=kind, default=field.default, help=field.description)
    loop.add_argument(
        "--decay",
        type=float,
        default=MedusaTrainConfig.model_fields["decay"].default,
        help="head k's loss counts decay^k",
    )
    loop.add_argument(
        "--bf16", action="store_true", help="output-layer products in bfloat16, where the processor is fast at it"
    )
    loop.add_argument(
        "--work", metavar="FOLDER", help="features and checkpoints; default: beside the heads, under .NAME.work"
    )
    add_machine_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end and no progress")


class _Progress:
    """Reporter of the training loop that moves a bar."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._note = ""

    def report(self, step: int, total: int, metrics: dict[str, float]) -> None:
        if self._bar is None:
            self._bar, self._close = counting_bar(total, "step", self._quiet)
        if "held_out_top1_0" in metrics:
            self._note = f"held-out top-1 {metrics['held_out_top1_0']:.3f}"
        loss = f"loss {metrics['loss']:.3f}" if "loss" in metrics else ""
        self._bar(step, " ".join(part for part in (loss, self._note) if part))

    def close(self) -> None:
        if self._bar is not None:
            self._close()


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Train and write heads; raises HeadwayError for anything the person can mend."""
    config = TrainConfig(
        epochs=args.epochs, batch_tokens=args.batch_tokens, learning_rate=args.learning_rate, seed=args.seed
    )
    loss = MedusaTrainConfig(decay=args.decay, compute="bfloat16" if args.bf16 else "float32")
    out = Path(args.out)
    work = Path(args.work) if args.work else out.parent / f".{out.name}.work"
    if args.tree_nodes is not None and args.tree_nodes < 1:
        raise HeadwayError(f"--tree-nodes must be at least 1, but it is {args.tree_nodes}.")
    answers = _answers(Path(args.answers))
    target = open_target(args.target, settings, args.device, args.dtype, args.trust_remote_code, loading_bar(args.json))
    highest = max(max(answer.prompt_ids + answer.answer_ids, default=0) for answer in answers)
    if highest >= target.vocab_size:
        raise HeadwayError(
            f"{args.answers} holds token {highest}, but {target.name} has {target.vocab_size} tokens: "
            "these are answers of another target, so distil with this one."
        )
    trained, held = split_held_out(answers, HELD_OUT)
    heads = _new_heads(args, target, trained)
    features = _features(target, trained, work / "features", "training", args.json)
    held_out = _features(target, held, work / "held-out", "held-out", args.json)
    progress = _Progress(args.json)
    result = train(config, MedusaLearner(heads, loss), features, held_out, progress, lambda: False, work / "run")
    progress.close()
    if result.finish_reason == "not_finite":
        raise HeadwayError(result.reason)
    tree, measured = _tree(args, target, heads, result, held)
    numbers = _numbers(result, tree, features, held_out) | {"trees": measured}
    meta = DrafterMeta(
        family="medusa",
        name=args.name or out.name,
        config={},
        version=target.identity.to_dict(),
        tree=tree.to_json(),
        numbers=numbers,
        lineage=_lineage(args, config, loss, answers, target),
    )
    save_heads(out, heads, meta, torch.float16 if args.half else torch.float32)
    if args.json:
        print(json.dumps({"out": str(out), "numbers": numbers, "tree": tree.to_json()}))
    else:
        say(f"{meta.name} is in {out}: {_sentence(numbers)}")
    return 0


def _answers(path: Path) -> Sequence[Answer]:
    if not path.is_file():
        raise HeadwayError(f"There is no file {path}; make answers with `distill` first.")
    answers = unpack_answers(path) if path.suffix == ".npz" else read_answers(path).answers
    if not answers:
        raise HeadwayError(f"{path} holds no answers; make some with `distill` first.")
    return answers


def _new_heads(args: argparse.Namespace, target: Target, answers: Sequence[Answer]) -> MedusaHeads:
    size = min(args.draft_vocab, target.vocab_size) if args.draft_vocab else None
    config = MedusaConfig(
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        num_heads=args.num_heads,
        num_blocks=args.num_blocks,
        shared_output=args.shared_output,
        draft_vocab_size=size,
    )
    heads = MedusaHeads(config)
    tokens = None
    if size is not None:
        tokens, covered = choose_tokens(answers, target.vocab_size, size, target.eos_token_ids)
        if not args.json:
            say(f"The {size:,} tokens the heads can draft cover {100 * covered:.2f} % of the answers.")
    heads.initialise(target.lm_head_weight().float().cpu(), tokens)
    return heads


def _features(target: Target, answers: Sequence[Answer], folder: Path, what: str, quiet: bool) -> FeatureStore:
    report, close = counting_bar(sum(len(answer.answer_ids) for answer in answers), "position", quiet)
    store = capture(target, answers, folder, progress=lambda done, total: report(done, f"{what} features"))
    close()
    return store


def _tree(
    args: argparse.Namespace, target: Target, heads: MedusaHeads, result: TrainResult, held: Sequence[Answer]
) -> tuple[TreeShape, list[dict[str, float]]]:
    """The tree to store, and what was measured to choose it.

    With a given number of nodes it is the one with the longest acceptance on the held-out positions, else the fastest
    of all sizes.
    """
    if result.ranks is None:
        return TreeShape(((0,),)), []
    if args.tree_nodes is not None:
        return best_tree_from_ranks(result.ranks, args.tree_nodes), []
    drafter = MedusaDrafter("new heads", HeadsForDrafting(heads.to(target.device, target.dtype)), TreeShape(((0,),)))
    text = max((answer.prompt_ids + answer.answer_ids for answer in held), key=len)[:TREE_CONTEXT]
    estimates = estimate_trees(target, drafter, result.ranks, text, candidate_trees(result.ranks))
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


def _numbers(result: TrainResult, tree: TreeShape, features: FeatureStore, held_out: FeatureStore) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "training_positions": len(features),
        "held_out_positions": len(held_out),
        "steps": result.steps,
        "train_s": round(result.train_s, 1),
    }
    if result.evaluation is not None and result.ranks is not None:
        numbers["held_out"] = {key: round(value, 4) for key, value in result.evaluation.as_metrics().items()}
        numbers["hit_rates"] = [[round(rate, 5) for rate in row] for row in result.evaluation.hit_rates()]
        numbers["expected_acceptance_length"] = round(acceptance_length_from_ranks(tree, result.ranks), 4)
    return numbers


def _lineage(
    args: argparse.Namespace, config: TrainConfig, loss: MedusaTrainConfig, answers: Sequence[Answer], target: Target
) -> dict[str, Any]:
    """Where the heads came from; no path of this machine but the answer file's name."""
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps([answer.prompt_ids, answer.answer_ids]).encode())
    return {
        "target": args.target,
        "answers": Path(args.answers).name,
        "answers_sha256": digest.hexdigest(),
        "answer_tokens": sum(len(answer.answer_ids) for answer in answers),
        "temperatures": sorted({answer.temperature for answer in answers}),
        "training": config.model_dump(),
        "loss": loss.model_dump(),
        "device": device_name(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
        "packages": packages(),
    }


def _sentence(numbers: dict[str, Any]) -> str:
    if "held_out" not in numbers:
        return "there were no held-out answers to measure on."
    tops = [f"{value:.2f}" for key, value in numbers["held_out"].items() if key.startswith("top1_")]
    return (
        f"held-out top-1 by head {', '.join(tops)}; expected acceptance length of the stored tree "
        f"{numbers['expected_acceptance_length']:.2f}."
    )
