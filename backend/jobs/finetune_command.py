"""`finetune`: a target learns given answers and becomes a new version; a killed run goes on where it stopped.

Turns options into a config and runs the job; knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import cast

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.finetune_config import FinetuneJobConfig
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "finetune")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Train and write a new version; raises HeadwayError for anything the person can mend."""
    config = cast(FinetuneJobConfig, config_of("finetune", args))
    work = Path(config.out).parent / f".{Path(config.out).name}.work" if config.out else None
    done = run_command("finetune", config, args, settings, work)
    if args.json:
        print(json.dumps(done))
        return 0
    numbers = done["numbers"]
    told = ""
    if numbers["perplexity_before"] is not None:
        told = (
            f" Perplexity of {numbers['held_out_answers']} held-out answers: {numbers['perplexity_before']:.3f} "
            f"before, {numbers['perplexity_after']:.3f} after."
        )
    say(f"A new version is in {done['out']}.{told} Drafters of the original refuse it: make its own, or --force them.")
    return 0
