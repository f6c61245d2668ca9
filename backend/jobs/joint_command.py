"""`joint`: drafter and target learn together (Medusa-2, joint MTP); a killed run goes on where it stopped.

Turns options into a config and runs the job; knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import cast

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.joint_config import JointJobConfig
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "joint")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Train and write a new target and its drafter; raises HeadwayError for anything the person can mend."""
    config = cast(JointJobConfig, config_of("joint", args))
    work = Path(config.out).parent / f".{Path(config.out).name}.work" if config.out else None
    done = run_command("joint", config, args, settings, work)
    if args.json:
        print(json.dumps(done))
        return 0
    lost = done["quality"]
    say(
        f"A new target is in {done['version_out']} and its drafter in {done['out']}: against the original it has a KL "
        f"divergence of {lost['kl_per_token']:.4f} a token and a perplexity of {lost['changed_perplexity']:.3f} "
        f"instead of {lost['original_perplexity']:.3f} on held-out answers; expected acceptance length of its "
        f"tree {done['numbers']['expected_acceptance_length']:.2f}."
    )
    return 0
