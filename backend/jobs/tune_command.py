"""`tune-tree`: the tree that accepts most, or with a cost curve the one that is fastest here; measured on request.

A search of a calibration is recorded as a job, so that an export can take up its tree; one of rates alone belongs to no
drafter and is only printed. Knows nothing of how a search works.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, cast

from backend.errors import HeadwayError
from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.jobs.tune_config import TuneJobConfig
from backend.jobs.tune_measure import measured
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "tune-tree")
    parser.add_argument(
        "--measure", action="append", metavar="FILE", help="measure it too, on these prompts, beside plain"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="with --measure: only the first N prompts of each file")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="with --measure (default 64)")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Search and print; raises HeadwayError for anything the person can mend."""
    config = cast(TuneJobConfig, config_of("tune-tree", args))
    if config.hits is not None:
        if args.measure:
            raise HeadwayError("Measuring needs a drafter, and hit rates name none; give --calibration, not --hits.")
        args.no_store = True
    _, _, found = run_and_read("tune-tree", args, settings, "file")
    if args.measure:
        found["measured"] = measured(args, settings, config, found)
    if args.json:
        print(json.dumps(_short(found) if config.hits is not None else found, ensure_ascii=False))
        return 0
    for line in lines_of(found):
        print(line)
    return 0


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """What a search over rates alone can say."""
    names = ("paths", "num_nodes", "expected_acceptance_length", "expected_tokens_per_s", "plain_tokens_per_s",
             "extrapolated", "medusa_choices", "eagle", "sglang", "notes")  # fmt: skip
    return {name: found[name] for name in (*names, "against") if name in found}


def lines_of(found: dict[str, Any]) -> list[str]:
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
