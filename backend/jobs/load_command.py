"""`load-test`: a server under load, with a drafter and without; prints the table, or one JSON object."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings

HEAD = (
    "arm",
    "load",
    "tokens/s",
    "answers",
    "failed",
    "first token p50/p95/p99 ms",
    "token p50/p95/p99 ms",
    "by position",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "load-test")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure and print; 1 when the server went away. Raises HeadwayError for anything the person can mend."""
    config, done, found = run_and_read("load-test", args, settings, "file")
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for line in table_lines(found):
            print(line)
        if not args.no_store or getattr(config, "out", None) is not None:
            say(f"The results are {done['file']}; the requests are {done['raw']}.")
    if found["gone"]:
        say(found["gone"])
    return 1 if found["gone"] else 0


def table_lines(found: dict[str, Any]) -> list[str]:
    """The table, and below it what drafting changed."""
    lines = [HEAD, *(_line(row) for row in found["rows"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    for row in found["speedups"]:
        shown.append(f"{load_words(row)}: {row['speedup']:.2f} times the plain server's tokens a second")
    if found["speedups"]:
        even = found["break_even"]
        shown.append(
            f"Drafting pays up to {even:g} clients." if even else "The speedup does not pass 1 in what was measured."
        )
    same = found["same_answers"]
    if same is not None:
        shown.append(f"The answers to {same['same']} of {same['of']} prompts are the same with drafts and without.")
    return shown


def load_words(row: dict[str, Any]) -> str:
    """ "8 clients", or "2 a second"."""
    if row["clients"] is None:
        return f"{row['rate']:g} a second"
    return f"{row['clients']} client{'' if row['clients'] == 1 else 's'}"


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    rates = row["drafts"]["rates"] if row["drafts"] else []
    return (
        row["arm"], load_words(row), f"{row['tokens_per_s']:.1f}", str(row["answered"]), str(row["failed"]),
        _times(row["ttft_ms"]), _times(row["tpot_ms"]), " ".join(f"{rate:.3f}" for rate in rates),
    )  # fmt: skip


def _times(found: dict[str, float] | None) -> str:
    return "" if found is None else " / ".join(f"{found[name]:.0f}" for name in ("p50", "p95", "p99"))
