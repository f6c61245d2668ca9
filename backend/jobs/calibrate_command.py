"""`calibrate`: how often a drafter's guesses are right, by depth and rank; prints the rates, or one JSON object."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings

SHOWN_RANKS = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "calibrate")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Calibrate and print; raises HeadwayError for anything the person can mend."""
    config, done, found = run_and_read("calibrate", args, settings, "file")
    kept = not args.no_store or getattr(config, "out", None) is not None
    tables = found["tables"]
    if args.json:
        print(json.dumps(done | {"file": done["file"] if kept else None, "tables": tables}, ensure_ascii=False))
        return 0
    for line in table_lines(done, tables):
        print(line)
    if kept:
        print(f"The calibration is {done['file']}.")
    return 0


def table_lines(done: dict[str, Any], tables: dict[str, Any]) -> list[str]:
    """Rates by depth and rank."""
    head = f"{done['positions']} positions in {done['prompts']} prompts; how often the guess of a rank is right:"
    lines = [head]
    for depth, row in enumerate(done["hits"], 1):
        shown = "  ".join(f"{rate:.3f}" for rate in row[:SHOWN_RANKS])
        first = tables["conditional"][depth - 1][0] if tables["conditional"][depth - 1] else None
        given = "" if first is None or first["rate"] is None else f"   best after right guesses {first['rate']:.3f}"
        lines.append(f"depth {depth}:  {shown}{given}")
    return lines
