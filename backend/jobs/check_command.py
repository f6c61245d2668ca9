"""`check`: hold a drafter's folder against what an engine looks for. Exit code 0 clean, 1 findings, 2 misuse."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backend.formats.check import ENGINES, Report, check_folder
from backend.formats.facts import facts_of
from backend.formats.findings import EFFECTS
from backend.jobs.console import loading_bar
from backend.settings import Settings
from backend.targets.opening import open_to_read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a drafter, as the engine would be given it")
    parser.add_argument("--engine", choices=ENGINES, help="default: the one it was exported for, else vllm")
    parser.add_argument("--target", metavar="NAME", help="the target it is for; without it less can be told")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the findings. Raises HeadwayError for what can't be read or is no drafter."""
    facts = None
    if args.target:
        facts = facts_of(open_to_read(args.target, settings, loading_bar(args.json)))
    report = check_folder(Path(args.path), args.engine, facts)
    print(json.dumps(report.to_dict()) if args.json else "\n".join(_lines(report, facts is not None)))
    return 1 if report.findings else 0


def _lines(report: Report, with_target: bool) -> list[str]:
    head = f"{report.path}: {report.layout}, {report.num_tensors} tensors, checked for {report.engine}"
    lines = [head + ("." if with_target else "; name the target to check more.")]
    for number, one in enumerate(report.findings, 1):
        lines += [
            "",
            f"{number}. {one.where}: {one.what} ({one.id})",
            f"   {EFFECTS[one.effect]}: {one.consequence}",
            f"   To mend it: {one.mend}",
        ]
    return [*lines, "", _sum(report)]


def _sum(report: Report) -> str:
    if not report.findings:
        return "Nothing to find fault with."
    load = sum(one.effect == "load" for one in report.findings)
    silent = sum(one.effect == "silent" for one in report.findings)
    return f"{len(report.findings)} findings: {load} stop the engine, {silent} would pass without a word."
