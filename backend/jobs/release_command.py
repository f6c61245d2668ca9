"""`release`: a new checkpoint gets a drafter, which has to be good enough: exit code 0 if it is, 1 if not.

Turns options into a config and runs the job; a killed release goes on where it was. Knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import cast

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_command
from backend.jobs.release_config import ReleaseJobConfig
from backend.settings import Settings

TEXT = "report.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "release")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Release and say whether it passed; raises HeadwayError for anything the person can mend."""
    config = cast(ReleaseJobConfig, config_of("release", args))
    out = Path(config.out).expanduser().absolute()
    work = out.parent / f".{out.name}.work"  # where nothing is recorded; else the job has a folder of its own
    if args.no_store:
        work.mkdir(parents=True, exist_ok=True)
    try:
        done = run_command("release", config, args, settings, work)
        shutil.rmtree(work, ignore_errors=True)
    finally:
        with suppress(OSError):  # nothing to go on with is in it
            work.rmdir()
    if args.json:
        print(json.dumps(done, ensure_ascii=False))
    else:
        say((out / TEXT).read_text(encoding="utf-8"))
        say(f"Drafter and report are in {out}.")
    return 0 if done["passed"] else 1
