"""`compare-serving`: the same greedy answers from Headway and from vLLM, acceptance at each position side by side."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "compare-serving")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Compare and print; raises HeadwayError for anything the person can mend."""
    _, _, found = run_and_read("compare-serving", args, settings, "file")
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for line in lines_of(found):
        print(line)
    return 0


def lines_of(found: dict[str, Any]) -> list[str]:
    """Positions, equality, causes."""
    lines = [f"{found['prompts']} prompts; acceptance at each position (marginal), Headway / vLLM:"]
    for row in found["positions"]:
        difference = 100 * row["difference"]
        lines.append(f"position {row['position']}:  {row['own']:.4f} / {row['served']:.4f}  ({difference:+.2f} points)")
    for title in ("domains", "contexts"):
        for group in found[title] if len(found[title]) > 1 else ():
            rates = "  ".join(f"{row['own']:.3f} / {row['served']:.3f}" for row in group["positions"])
            lines.append(f"{group['label']} ({group['prompts']}):  {rates}")
    both, own = found["equal"]["with_and_without"], found["equal"]["served_and_own"]
    if both is not None:
        lines.append(
            f"vLLM's answers with and without the drafter: {both['same']} of {both['of']} equal, token by token."
        )
    lines.append(f"vLLM's answers and Headway's: {own['same']} of {own['of']} equal.")
    return [*lines, *found["causes"]]
