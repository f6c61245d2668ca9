"""`tune-tree`: the tree that accepts most, or with a cost curve the one that is fastest here; measured on request.

Turns files and jobs into a calibration and a cost curve, searches, and prints. Knows nothing of how a search works.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.recorded import add_store_arguments
from backend.jobs.tune_conditions import check_here, check_together
from backend.jobs.tune_measure import measured
from backend.jobs.tune_sources import calibration_at, cost_at
from backend.settings import Settings
from backend.trees.search import HitTable
from backend.trees.shapes import parse_tree
from backend.tuning.cost_curve import CostCurve
from backend.tuning.files import path_of_text, read_hits
from backend.tuning.stopping import refuse_sampled
from backend.tuning.tuned import Tuned, check_nodes, expected, predicted, tune_calibration, tune_hits

NODES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--hits", metavar="FILE.json", help='hit rates: {"hits": [[0.6, 0.2], [0.4]]}, a list a depth')
    what.add_argument("--calibration", metavar="FILE_OR_JOB", help="what `calibrate` wrote, or the id of its job")
    parser.add_argument("--nodes", type=int, default=NODES, metavar="N", help=f"most drafted nodes (default {NODES})")
    parser.add_argument("--cost", metavar="FILE_OR_JOB", help="what `cost` wrote, or the id of its job")
    parser.add_argument("--batch", type=int, default=1, metavar="B", help="sequences at once (default 1)")
    parser.add_argument("--context", type=int, metavar="TOKENS", help="tokens before the tree; default: the mean")
    parser.add_argument("--temperature", type=float, metavar="T", help="of the calibration; default: its lowest")
    parser.add_argument("--category", metavar="NAME", help="only this domain of the calibration")
    parser.add_argument(
        "--against", action="append", default=[], metavar="TREE", help="predict this tree too; repeatable"
    )
    parser.add_argument("--sampled", action="store_true", help="siblings are drawn at random (no stops by confidence)")
    parser.add_argument(
        "--measure", action="append", metavar="FILE", help="measure it too, on these prompts, beside plain"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="with --measure: only the first N prompts of each file")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="with --measure (default 64)")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Search and print; raises HeadwayError for anything the person can mend."""
    _check(args)
    cost = cost_at(args.cost, args, settings) if args.cost else None
    if cost is not None:
        check_here(cost.conditions)
    tuned = _from_hits(args, cost) if args.hits else _from_calibration(args, cost, settings)
    found = tuned.to_dict()
    if args.against:
        found["against"] = _against(args, cost, settings, tuned)
    if args.measure:
        found["measured"] = measured(args, settings, tuned)
    if args.json:
        print(json.dumps(_short(found) if args.hits else found, ensure_ascii=False))
        return 0
    for line in lines_of(found, tuned):
        print(line)
    return 0


def _check(args: argparse.Namespace) -> None:
    check_nodes(args.nodes)
    if args.batch < 1:
        raise HeadwayError(f"The batch must be at least 1, but it is {args.batch}.")
    if args.context is not None and args.context < 1:
        raise HeadwayError(f"The context must be at least 1 token, but it is {args.context}.")
    if args.measure and args.hits:
        raise HeadwayError("Measuring needs a drafter, and hit rates name none; give --calibration instead of --hits.")


def _from_hits(args: argparse.Namespace, cost: CostCurve | None) -> Tuned:
    return tune_hits(_table(args), cost, args.nodes, args.batch, args.context)


def _table(args: argparse.Namespace) -> HitTable:
    read = read_hits(args.hits)
    return HitTable(read.hits, {path_of_text(text): row for text, row in read.conditional.items()})


def _from_calibration(args: argparse.Namespace, cost: CostCurve | None, settings: Settings) -> Tuned:
    whole = calibration_at(args.calibration, args, settings)
    temperature = whole.temperatures[0] if args.temperature is None else args.temperature
    calibration = whole.only(temperature, args.category)
    if cost is not None:
        check_together(calibration.conditions, cost.conditions)
    grows = bool(calibration.conditions.get("drafter", {}).get("grows")) and not args.sampled
    tuned = tune_calibration(
        calibration, cost, args.nodes, args.batch, args.context, grows=grows, stops=not args.sampled
    )
    tuned.conditions.update({"calibration": dict(calibration.conditions), "temperature": temperature})
    if args.sampled:
        try:
            refuse_sampled(True)
        except HeadwayError as error:  # named and left out: a static tree can still be found
            return tuned.noting(str(error))
    return tuned


def _against(args: argparse.Namespace, cost: CostCurve | None, settings: Settings, tuned: Tuned) -> dict[str, Any]:
    """What is predicted of other trees with the same rates: {tree: candidate}. Raises HeadwayError for what is none."""
    shapes = {text: parse_tree(text) for text in args.against}
    if args.hits:
        table = _table(args)
        at = args.context if args.context is not None else min(cost.contexts) if cost is not None else 0
        return {text: expected(table, shape, cost, args.batch, at).to_dict() for text, shape in shapes.items()}
    calibration = calibration_at(args.calibration, args, settings).only(tuned.conditions["temperature"], args.category)
    at = calibration.context if args.context is None else args.context
    return {text: predicted(calibration, one, cost, args.batch, at).to_dict() for text, one in shapes.items()}


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """What a search over rates alone can say."""
    names = ("paths", "num_nodes", "expected_acceptance_length", "expected_tokens_per_s", "plain_tokens_per_s",
             "extrapolated", "medusa_choices", "eagle", "sglang", "notes")  # fmt: skip
    return {name: found[name] for name in (*names, "against") if name in found}


def lines_of(found: dict[str, Any], tuned: Tuned) -> list[str]:
    """For a person."""
    between = found["acceptance_interval"]
    sure = f" ({between['low']:.2f} to {between['high']:.2f})" if between else ""
    lines = [
        f"{found['num_nodes']} nodes, depth {found['max_depth']}: {json.dumps(found['paths'])}",
        f"expected acceptance length {found['expected_acceptance_length']:.3f}{sure}",
    ]
    if found["expected_tokens_per_s"] is not None:
        lines.append(
            f"expected {found['expected_tokens_per_s']:.1f} tokens/s, {found['speedup']:.2f} times plain decoding"
            f" ({found['plain_tokens_per_s']:.1f})"
        )
    eagle, sglang = found["eagle"], found["sglang"]
    lines.append(
        f"nearest for EAGLE: total_token {eagle['total_token']}, depth {eagle['depth']}, top_k {eagle['top_k']}"
    )
    lines.append("nearest for SGLang: " + ", ".join(f"{name} {value}" for name, value in sglang.items()))
    lines += _other_ways(found)
    lines += [_against_line(text, one) for text, one in found.get("against", {}).items()]
    if "measured" in found:
        lines += [_measured_line(one) for one in found["measured"]["rows"]]
    return [*lines, *found["notes"]]


def _other_ways(found: dict[str, Any]) -> list[str]:
    lines = []
    if (dynamic := found["dynamic"]) is not None:
        lines.append(
            f"dynamic tree: {dynamic['levels']} levels, top-k {dynamic['top_k']}, {dynamic['num_nodes']} nodes: "
            f"length {dynamic['expected_acceptance_length']:.2f}, {dynamic['expected_tokens_per_s']:.1f} tokens/s"
        )
    if (stops := found["confidence_stops"]) is not None:
        lines.append(
            f"chain that stops by confidence: length {stops['expected_acceptance_length']:.2f}, "
            f"{stops['expected_tokens_per_s']:.1f} tokens/s"
        )
    if found["batches"]:
        lines.append(f"vLLM num_speculative_tokens_per_batch_size: {found['num_speculative_tokens_per_batch_size']}")
        lines.append(f"SGLang adaptive steps: {json.dumps(found['sglang_adaptive_steps'])}")
    return lines


def _against_line(text: str, one: dict[str, Any]) -> str:
    speed = one["expected_tokens_per_s"]
    told = "" if speed is None else f", {speed:.1f} tokens/s"
    return f"{text}, {one['num_nodes']} nodes: length {one['expected_acceptance_length']:.3f}{told}"


def _measured_line(row: dict[str, Any]) -> str:
    between = row["speedup_interval"]
    sure = f" ({between['low']:.2f} to {between['high']:.2f})" if between else ""
    return (
        f"measured {row['contender']} on {row['set']}: length {row['acceptance_length']:.3f}, "
        f"{row['tokens_per_s']:.1f} tokens/s, speedup {row['speedup'] or 1:.2f}{sure}"
    )
