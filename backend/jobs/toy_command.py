"""`toy`: the two lessons of the field in a world of 64 tokens, in seconds. Knows no target and no store."""

from __future__ import annotations

import argparse
import json

from backend.analysis.toy import ToyConfig, ToyRow, run_toy
from backend.jobs.console import counting_bar
from backend.jobs.options import add_options, given
from backend.settings import Settings

NUM_ROWS = 6
WORDS = {"base": "the base model's text", "target": "the target's own text", None: "exact"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, ToyConfig)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print one line a drafter. Raises ValidationError for a size out of its bounds."""
    config = ToyConfig.model_validate(given(args, ToyConfig))
    report, close = counting_bar(NUM_ROWS, "drafter", args.json)
    rows = run_toy(config, lambda done, total: report(done, ""))
    close()
    if args.json:
        print(json.dumps({"seed": config.seed, "rows": [row.to_dict() for row in rows]}))
        return 0
    print(f"{'drafter':<18}{'learned from':<24}{'accepted at depth 1 ... ' + str(config.depth):<32}tokens per step")
    for row in rows:
        print(_line(row))
    return 0


def _line(row: ToyRow) -> str:
    rates = "  ".join(f"{rate:.2f}" for rate in row.acceptance_per_depth)
    return f"{row.drafter:<18}{WORDS[row.data]:<24}{rates:<32}{row.tokens_per_step:.2f}"
