"""`doctor`: why a drafter accepts as little as it does; prints what was found, or one JSON object."""

from __future__ import annotations

import argparse
import json
from typing import Any

from backend.jobs.as_text import add_config_options
from backend.jobs.recorded import add_store_arguments, run_and_read
from backend.settings import Settings

FAULTS = 1  #: exit code, so that a script may depend on it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "doctor")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Diagnose and print; the exit code is 1 when a cause was found. Raises HeadwayError for what can be mended."""
    config, done, kept = run_and_read("doctor", args, settings, "file")
    stays = not args.no_store or getattr(config, "out", None) is not None
    found = kept["diagnosis"]
    if args.json:
        print(json.dumps({"file": done["file"] if stays else None} | kept, ensure_ascii=False))
    else:
        for line in lines(found):
            print(line)
        if stays:
            print(f"The diagnosis is {done['file']}.")
    return FAULTS if found["verdict"] == "faults" else 0


def lines(found: dict[str, Any]) -> list[str]:
    """What a person reads."""
    shown = [found["sentence"]]
    for number, one in enumerate(found["findings"], start=1):
        shown += [f"{number}. {one['sentence']} ({one['kind']})", f"   gain: {gain_in_words(one)}"]
        shown += [f"   {one['mend']}", f"   {one['command']}"]
    if found["untested"]:
        by_reason: dict[str, list[str]] = {}
        for one in found["untested"]:
            by_reason.setdefault(one["reason"], []).append(one["kind"])
        shown += [f"not tested, {reason}: {', '.join(kinds)}" for reason, kinds in by_reason.items()]
    return shown


def gain_in_words(one: dict[str, Any]) -> str:
    """What mending would add, and how that is known."""
    if one["how"] == "speed":
        return f"{100 * one['evidence']['speed_gain']:.0f} % of the speed ({one['told_by']})"
    if one["high"] is None:
        return "not known"
    bounds = f"{one['low']:+.2f} to {one['high']:+.2f} tokens a step ({one['how']}: {one['told_by']})"
    return bounds if one["gain"] is None else f"{one['gain']:+.2f}, {bounds}"
