"""`sweep`: tries settings and prints them with what they measured; a killed sweep goes on.

Turns arguments or a file into the job's config, runs the job and prints what came out. Knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings
from backend.sweeps.objectives import OBJECTIVES
from backend.sweeps.space import shown

MARKS = {True: "*", False: ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "sweep")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Try and print; raises HeadwayError for anything the person can mend."""
    _, _, found = run_and_read("sweep", args, settings, "table")
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for line in table_lines(found):
        print(line)
    return 0


def table_lines(found: dict[str, Any]) -> list[str]:
    """The measured trials, the best in the first objective first; `*` where no other is better in everything."""
    goals = [OBJECTIVES[name] for name in found["objectives"]]
    trials = found["trials"]
    knobs = list(dict.fromkeys(name for one in trials for name in one["values"]))
    measured = [one for one in trials if one["state"] == "finished"]
    first = goals[0]
    measured.sort(key=lambda one: one["figures"].get(first.name) or 0, reverse=first.maximize)
    head = ("trial", *knobs, *(goal.label for goal in goals), "")
    lines = [head, *(_line(one, knobs, found["objectives"]) for one in measured)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    others = [one for one in trials if one["state"] in ("skipped", "failed", "pruned")]
    return table + [f"Trial {one['number']} was {one['state']}: {one['reason']}" for one in others]


def _line(one: dict[str, Any], knobs: list[str], goals: list[str]) -> tuple[str, ...]:
    name = f"exact, {one['number']}" if one["reference"] else str(one["number"])
    settings = ["" if one["values"].get(knob) is None else shown(one["values"][knob]) for knob in knobs]
    figures = ["" if one["figures"].get(goal) is None else f"{one['figures'][goal]:.4g}" for goal in goals]
    notes = "".join((MARKS[one["front"]], "" if one["feasible"] else " too much drift",
                     " contended" if one["contended"] else ""))  # fmt: skip
    return (name, *settings, *figures, notes.strip())
