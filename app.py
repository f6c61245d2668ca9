"""The door: starts the dashboard, or does one job on the command line.

    python app.py                      the dashboard on http://127.0.0.1:7860
    python app.py decode --prompt ...  one job without a browser; see --help

Every mistake a person can make ends in one sentence on stderr and exit code 2. Knows the commands by name and nothing
of their work.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from tools.openmp_env import openmp_env

COMMANDS = {
    "serve": ("dashboard.serve", "open the dashboard (the default)"),
    "decode": ("backend.jobs.decode_command", "answer prompts and print the figures"),
    "race": ("backend.jobs.race_command", "answer one prompt in two to four lanes that take turns; who is first"),
    "distill": ("backend.jobs.distill_command", "let the target answer prompts, as training data"),
    "train": ("backend.jobs.train_command", "train draft heads on distilled answers"),
    "joint": ("backend.jobs.joint_command", "train drafter and target together (Medusa-2, joint MTP): a new version"),
    "finetune": ("backend.jobs.finetune_command", "fine-tune a target on given answers: a new version"),
    "versions": ("backend.jobs.versions_command", "list, register, label or check versions; say what differs"),
    "read-mtp": ("backend.jobs.read_mtp_command", "take the MTP modules of a published checkpoint as a drafter"),
    "vocab-curve": ("backend.jobs.vocab_curve_command", "how much of the target's text a draft vocabulary covers"),
    "data-curve": ("backend.jobs.data_curve_command", "say how many more training tokens a gain in acceptance takes"),
    "evaluate": ("backend.jobs.evaluate_command", "measure drafters beside plain decoding on prompt sets"),
    "calibrate": ("backend.jobs.calibrate_command", "see how often a drafter's guesses are right, by depth and rank"),
    "cost": ("backend.jobs.cost_command", "time target passes and drafting on this device"),
    "tune-tree": ("backend.jobs.tune_command", "find the tree that accepts most, or that is fastest here"),
    "export": ("backend.jobs.export_command", "write a drafter as vLLM or SGLang reads it, with the command for it"),
    "import": ("backend.jobs.import_command", "read a drafter that others published"),
    "check": ("backend.jobs.check_command", "hold a drafter's folder against what an engine looks for"),
    "audit": ("backend.jobs.audit_command", "show that a drafter leaves the target's output as it is"),
    "release": ("backend.jobs.release_command", "give a new checkpoint a drafter and hold it against limits"),
    "adapters": ("backend.jobs.adapters_command", "say which of several LoRA adapters earns draft heads of its own"),
    "watch": ("backend.jobs.watch_command", "raise an alarm when a drafter no longer fits the version it meets"),
    "doctor": ("backend.jobs.doctor_command", "say why a drafter accepts as little as it does, and what mends it"),
    "toy": ("backend.jobs.toy_command", "show the field's two lessons in a world of 64 tokens"),
    "sweep": ("backend.jobs.sweep_command", "try settings of decoding or training and say which is best"),
    "vllm-setup": ("backend.jobs.vllm_setup_command", "install vLLM into an environment of its own"),
    "vllm": ("backend.jobs.vllm_command", "run a vLLM server with a drafter, or watch a running one"),
    "load-test": ("backend.jobs.load_command", "measure a server under load, with a drafter and without"),
    "compare-serving": ("backend.jobs.compare_command", "hold vLLM's acceptance against Headway's own"),
    "db": ("backend.jobs.db_command", "copy or upgrade the database; list and delete files nothing refers to"),
    "runs": ("backend.jobs.runs_command", "list and show stored runs"),
    "jobs": ("backend.jobs.jobs_command", "list jobs, show, stop, pause or resume one, read its log"),
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.\n")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0] not in COMMANDS and words[0] not in ("-h", "--help")):
        words.insert(0, "serve")
    _use_fast_openmp(argv is None)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # its warnings would stand beside our one sentence
    parser = _Parser(prog="app.py", description="Headway: a workbench for self-speculative decoding.")
    choices = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module, summary) in COMMANDS.items():
        sub = choices.add_parser(name, help=summary, description=summary)
        if words[0] == name:  # only the command at hand is imported: --help and runs stay quick
            importlib.import_module(module).add_arguments(sub)
            importlib.import_module("backend.jobs.as_text").take_config_file(sub)
    args = parser.parse_args(words)
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from pydantic import ValidationError

    from backend.errors import HeadwayError
    from backend.settings import Settings
    from storage import StoreError

    try:
        settings = Settings.from_environ()
        settings.make_folders()
        return int(importlib.import_module(COMMANDS[args.command][0]).run(args, settings))
    except (HeadwayError, StoreError) as error:
        print(error, file=sys.stderr)
        return int(getattr(error, "code", 2))  # a job that was asked to stop is no mistake
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        print(f"--{where.replace('_', '-')}: {first['msg']} (got {first['input']!r}).", file=sys.stderr)
    except BrokenPipeError:
        return 0  # the reader of our output went away, as `head` does
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    return 2


def _use_fast_openmp(from_shell: bool) -> None:
    """Start again with the OpenMP library that shares a busy CPU well; it has to be there before torch is loaded."""
    if not from_shell or os.environ.get("HEADWAY_OPENMP") == "set":
        return
    wanted = openmp_env(Path(sys.prefix), os.environ)
    if wanted:
        environ = {**os.environ, **wanted, "HEADWAY_OPENMP": "set"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environ)


if __name__ == "__main__":
    sys.exit(main())
