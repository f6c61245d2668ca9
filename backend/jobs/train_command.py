"""`train`: a drafter from distilled answers; a killed run goes on where it stopped.

Turns options into a config and runs the job; knows nothing of how it is done. Started by torchrun, all processes train
together, and the first one is the job.
"""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any, cast

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.carry_out import on_signals
from backend.jobs.configs import TrainJobConfig
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "train")
    parser.add_argument("--bf16", action="store_true", help="short for --compute bfloat16")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Train and write a drafter; raises HeadwayError for anything the person can mend."""
    typed = {"drafter": {"compute": "bfloat16"}} if args.bf16 else {}
    config = cast(TrainJobConfig, config_of("train", args, typed))
    work = Path(config.out).parent / f".{Path(config.out).name}.work" if config.out else None
    from backend.training.processes import joined  # torch, which --help does without

    with joined(config.device) as processes:
        if not processes.first:
            return _beside(config, settings)
        done = run_command("train", config, args, settings, work)
    if args.json:
        print(json.dumps({"out": done["out"], "numbers": done["numbers"], "tree": done["tree"]}))
    else:
        say(f"{Path(done['out']).name} is in {done['out']}: {_sentence(done['numbers'])}")
    return 0


def _beside(config: TrainJobConfig, settings: Settings) -> int:
    """One of the other processes; whoever stops the training tells the first one, which tells this one."""
    from backend.jobs import train_job

    with on_signals({signal.SIGINT: lambda: None, signal.SIGTERM: lambda: None}):
        train_job.beside(config, settings)
    return 0


def _sentence(numbers: dict[str, Any]) -> str:
    if "held_out" not in numbers:
        return "there were no held-out answers to measure on."
    tops = [f"{value:.2f}" for key, value in numbers["held_out"].items() if key.startswith("top1_")]
    sentence = f"held-out top-1 by depth {', '.join(tops)}"
    if "expected_acceptance_length" in numbers:
        sentence += f"; expected acceptance length of the stored tree {numbers['expected_acceptance_length']:.2f}"
    if "decoded_acceptance_length" in numbers:
        sentence += (
            f"; {numbers['decoded_acceptance_length']:.2f} with a chain on decoded prompts, at step "
            f"{numbers['kept_step']}"
        )
    return sentence + "."
