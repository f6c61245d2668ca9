"""`adapters`: several LoRA adapters of one target, and which of them earns draft heads of its own.

Turns options into a config and runs the job; a killed comparison goes on where it was. Knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import shutil
from contextlib import suppress
from pathlib import Path
from typing import cast

from backend.jobs.adapters_config import AdaptersJobConfig
from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings

TEXT = "report.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "adapters")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Compare and print the report, or its JSON; raises HeadwayError for anything the person can mend."""
    config = cast(AdaptersJobConfig, config_of("adapters", args))
    out = Path(config.out).expanduser().absolute()
    work = out.parent / f".{out.name}.work"  # where nothing is recorded; else the job has a folder of its own
    if args.no_store:
        work.mkdir(parents=True, exist_ok=True)
    try:
        done = run_command("adapters", config, args, settings, work)
        shutil.rmtree(work, ignore_errors=True)
    finally:
        with suppress(OSError):  # nothing to go on with is in it
            work.rmdir()
    if args.json:
        print(Path(done["report"]).read_text(encoding="utf-8").rstrip())
    else:
        say((out / TEXT).read_text(encoding="utf-8"))
        say(f"Drafters and report are in {out}.")
    return 0
