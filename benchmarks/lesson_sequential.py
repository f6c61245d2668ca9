"""First lesson of the field, on a real target: heads that guess apart from each other lose to drafters that see what
they guessed, more with every depth, and more where the target samples.

    python -m benchmarks.lesson_sequential --drafters builtin-medusa builtin-hydra builtin-eagle3 \
        --out lesson.json --figure lesson.svg

Every drafter decodes the same prompts with the same chain; what counts is the share of steps in which depth d was
accepted of those that accepted depth d - 1. The chain keeps trees out of it, the same depth keeps reach out of it.
"""

from __future__ import annotations

import argparse
import copy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.analysis.evaluation import MEAN, Part, table
from backend.drafters.base import Drafter
from backend.drafters.registry import load_drafter, with_tree
from backend.trees import chain
from benchmarks.common import add_prompt_arguments, open_both, prompt_sets, start_fast, write_results
from benchmarks.common import table as markdown
from benchmarks.line_figure import line_figure
from benchmarks.speed import measure_set

TENTHS = tuple(tenth / 10 for tenth in range(11))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_prompt_arguments(parser, limit=20, new_tokens=96)
    parser.add_argument("--drafters", nargs="+", required=True, metavar="DRAFTER")
    parser.add_argument("--temperatures", nargs=2, type=float, default=[0.0, 1.0], metavar="T")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--figure", metavar="FILE.svg")
    args = parser.parse_args()
    start_fast("benchmarks.lesson_sequential")
    target, _ = open_both(args.target, with_reference=False)
    drafters: dict[str, Drafter] = {}
    for spec in args.drafters:
        loaded, _ = load_drafter(spec, target)
        drafters[loaded.family] = with_tree(loaded, chain(args.depth))
    parts: list[Part] = []
    for name, prompts in prompt_sets(args.prompts, args.limit).items():
        for temperature in args.temperatures:
            asked = copy.copy(args)
            asked.temperature = temperature
            measured, _ = measure_set(target, None, drafters, prompts, asked)
            parts += [replace(part, set=name) for part in measured]
        rows = [row.to_dict() for row in table(parts) if row.category is None]
        write_results(args, target, rows)
        print(f"{name} is done", file=sys.stderr)
    shown = [row for row in rows if row["set"] == MEAN or len(args.prompts) == 1]
    print(markdown([("drafter", "T", "length", *(f"depth {d + 1}" for d in range(args.depth))), *map(_line, shown)]))
    if args.figure:
        draw(Path(args.figure), shown, args.depth)


def draw(path: Path, rows: list[dict[str, Any]], depth: int) -> None:
    """Conditional acceptance by depth: a line for every drafter and temperature, dashed for the second."""
    temperatures = sorted({row["temperature"] for row in rows})
    lines = {
        f"{row['contender']}, T = {row['temperature']:g}": [
            (float(place + 1), share) for place, share in enumerate(row["conditional"]) if share is not None
        ]
        for row in rows
    }
    dashed = {f"{row['contender']}, T = {row['temperature']:g}": temperatures.index(row["temperature"]) for row in rows}
    depths = [float(one) for one in range(1, depth + 1)]
    title = "Acceptance at each depth, of the steps that accepted the depth before"
    line_figure(path, title, lines, ("depth of the chain", depths), ("share accepted", TENTHS), dashed)


def _line(row: dict[str, Any]) -> list[str]:
    shares = ["" if share is None else f"{share:.2f}" for share in row["conditional"]]
    return [row["contender"], f"{row['temperature']:g}", f"{row['acceptance_length']:.2f}", *shares]


if __name__ == "__main__":
    main()
