"""`export`: write a drafter as an engine reads it, with the command that serves it, and check what was written.

Turns arguments or a file into the job's config, runs the job and says what was written.
"""

from __future__ import annotations

import argparse
import json

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings
from backend.words import bytes_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # The short way to say --drafter; left out, it leaves that option alone.
    parser.add_argument(
        "drafter", nargs="?", default=argparse.SUPPRESS, metavar="DRAFTER",
        help="the folder of a trained drafter, or builtin-medusa",
    )  # fmt: skip
    add_config_options(parser, "export")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Export and say what was written. Raises HeadwayError."""
    done = run_command("export", config_of("export", args), args, settings)
    if args.json:
        print(json.dumps(done))
        return 0
    size = bytes_in_words(done["bytes"])
    print(f"Wrote {done['out']}: {done['family']} for {done['engine']}, {done['tensors']} tensors, {size}.")
    if done["check"] is None:
        return 0
    print(f"{done['out']}/README.md has the command that serves it.")
    findings = len(done["check"]["findings"])
    told = f"{findings} finding{'s' * (findings > 1)}; `check` says what they mean" if findings else "nothing found"
    print(f"Checked as {done['engine']} reads it: {told}.")
    return 0
