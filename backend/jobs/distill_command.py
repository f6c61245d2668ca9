"""`distill`: the target answers a prompt file itself; a killed run goes on where it stopped.

Turns options into a config and runs the job; knows nothing of how it is done.
"""

from __future__ import annotations

import argparse
import json
from typing import cast

from backend.data.answers import read_answers
from backend.data.templates import describe_mask, format_mask
from backend.errors import HeadwayError
from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.configs import DistillJobConfig
from backend.jobs.console import say
from backend.jobs.recorded import add_store_arguments, run_command
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "distill")
    parser.add_argument(
        "--show-mask", type=int, metavar="N", help="print the first N answers token by token with the loss mask"
    )
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Distil all prompts; raises HeadwayError for anything the person can mend."""
    config = cast(DistillJobConfig, config_of("distill", args))
    if args.show_mask is not None and args.show_mask < 1:
        raise HeadwayError(f"--show-mask must be at least 1, but it is {args.show_mask}.")
    done = run_command("distill", config, args, settings)
    if args.show_mask:
        _show_mask(config, settings, done["out"], args.show_mask)
    if args.json:
        print(json.dumps(done))
    else:
        say(
            f"{done['answers']} answers with {done['tokens']:,} tokens in {done['out']}; "
            f"{done['truncated']} were cut at {config.max_new_tokens} tokens."
        )
    return 0


def _show_mask(config: DistillJobConfig, settings: Settings, out: str, count: int) -> None:
    from backend.targets.opening import open_target

    target = open_target(config.target, settings, config.device, config.dtype, config.trust_remote_code)
    for answer in read_answers(out).answers[:count]:
        ids = [*answer.prompt_ids, *answer.answer_ids]
        mask = [False] * len(answer.prompt_ids) + [True] * len(answer.answer_ids)
        print(format_mask(describe_mask(target.tokenizer, ids, mask)))
