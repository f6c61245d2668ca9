"""`vllm`: a vLLM server that runs until Ctrl-C or `jobs stop`, or with --url a running one that is watched."""

from __future__ import annotations

import argparse
import json

from backend.jobs.as_text import add_config_options, config_of
from backend.jobs.console import say
from backend.jobs.recorded import Stopped, add_store_arguments, run_command
from backend.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser, "vllm")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until stopped; raises HeadwayError with the reason when the server ends by itself."""
    try:
        run_command("vllm", config_of("vllm", args), args, settings)
    except Stopped:  # there is no other end, so it is none to complain about
        if args.json:
            print(json.dumps({"stopped": True}))
        else:
            say("The server is stopped.")
    return 0
