"""`evaluate`: drafters beside plain decoding on prompt sets; prints the table, or one JSON object.

Turns arguments or a file into the job's config, runs the job and prints what came out. Knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings

HEAD = ("set", "drafter", "T", "rows", "length", "speedup", "95 %", "v", "c", "o", "tokens/s", "repeated", "prompts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "evaluate")
    for name in ("drafter", "tree"):  # how one says it when there is one
        parser.add_argument(f"--{name}", dest=f"{name}s", action="append", help=argparse.SUPPRESS)
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure and print; raises HeadwayError for anything the person can mend."""
    _, _, found = run_and_read("evaluate", args, settings, "table")
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for line in table_lines(found["rows"]):
        print(line)
    return 0


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Whole sets as a table; a `+` where a row beats all others of its group by more than chance."""
    lines = [HEAD, *(_line(row) for row in rows if row["category"] is None)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    between = row["speedup_interval"]
    return (
        row["set"],
        row["contender"],
        f"{row['temperature']:g}",
        str(row["batch"]),
        _number(row["acceptance_length"]) + ("+" if "acceptance_length" in row["best"] else ""),
        _number(row["speedup"]) + ("+" if "speedup" in row["best"] else ""),
        f"{between['low']:.2f}-{between['high']:.2f}" if between else "",
        *(_number(row[name]) for name in ("verify", "draft", "overhead")),
        _number(row["tokens_per_s"], 1) + (" contended" if row["contended"] else ""),
        _number(row["repeated"]),
        str(row["num_prompts"]),
    )


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"
