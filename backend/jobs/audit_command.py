"""`audit`: whether a drafter leaves the target's output as it is; prints what was found, or one JSON object."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings

DEVIATES = 1  #: exit code, so that a script may depend on it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "audit")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Audit and print; the exit code is 1 for a drafter that deviates. Raises HeadwayError for what can be mended."""
    config, done, certificate = run_and_read("audit", args, settings, "file")
    kept = not args.no_store or getattr(config, "out", None) is not None
    if args.json:
        places = {name: done[name] if kept else None for name in ("file", "page")}
        print(json.dumps(places | certificate, ensure_ascii=False))
    else:
        for line in lines(certificate["findings"]):
            print(line)
        if kept:
            print(f"The certificate is {done['file']}, and as a page {done['page']}.")
    return DEVIATES if certificate["findings"]["verdict"] == "deviates" else 0


def lines(findings: dict[str, Any]) -> list[str]:
    """What a person reads."""
    shown = [findings["sentence"]]
    if (greedy := findings["greedy"]) is not None:
        shown.append(
            f"greedy: {greedy['equal']} of {greedy['tokens']} tokens in {greedy['answers']} answers are the likeliest, "
            f"{greedy['ties']} tied with it, {greedy['errors']} are wrong"
        )
    if (passes := findings["passes"]) is not None:
        shown.append(
            f"passes: {passes['compared']} drafted tokens compared, probabilities differ by at most "
            f"{passes['largest_difference']:.1g}"
        )
    for test in (findings["sampling"] or {}).get("tests", ()):
        value = "too few" if test["p_value"] is None else f"p = {test['p_value']:.3g}"
        shown.append(f"sampling, {test['name']}: {test['positions']} positions, {value}")
    return shown
