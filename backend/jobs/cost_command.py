"""`cost`: what target passes and drafting take on this device; prints a table, or the curve as one JSON object."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "cost")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure and print; raises HeadwayError for anything the person can mend."""
    config, done, curve = run_and_read("cost", args, settings, "file")
    kept = not args.no_store or getattr(config, "out", None) is not None
    if args.json:
        print(json.dumps(curve, ensure_ascii=False))
        return 0
    for line in table_lines(curve, done):
        print(line)
    if kept:
        print(f"The curve is {done['file']}.")
    return 0


def table_lines(curve: dict[str, Any], done: dict[str, Any]) -> list[str]:
    """Passes by batch and context in units of the one-row pass, drafting by tree, and where passes stop being cheap."""
    blocks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for one in curve["passes"]:
        blocks.setdefault((one["batch"], one["context"]), []).append(one)
    lines = []
    for (batch, context), points in blocks.items():
        base = points[0]["ms"]
        lines.append(f"batch {batch}, {context} tokens before, one row {base:.2f} ms; of that pass:")
        lines.append("  " + "  ".join(f"{one['rows']}: {one['ms'] / base:.2f}" for one in points))
    for one in curve["steps"]:
        name = f"tree of {one['nodes']} nodes, depth {one['depth']}" if one["nodes"] else "plain step"
        lines.append(f"batch {one['batch']}, {name}: drafting {one['draft_ms']:.2f} ms, rest {one['other_ms']:.2f} ms")
    knee = done["knee_rows"]
    lines.append(
        f"passes cost little more than one row up to about {knee} rows"
        if knee
        else "passes never leave the flat part in what was measured"
    )
    return [*lines, *done["notes"]]
