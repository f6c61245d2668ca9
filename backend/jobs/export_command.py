"""`export`: write a drafter as an engine reads it, with the command that serves it. Writes one folder, no store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backend.drafters.checkpoint import read_meta
from backend.errors import HeadwayError
from backend.formats.export import DTYPES, ENGINES, export_drafter
from backend.formats.facts import facts_of
from backend.formats.parts import ExportOptions
from backend.jobs.console import loading_bar, say
from backend.settings import Settings
from backend.targets.loading import load_model
from backend.targets.opening import open_target
from backend.words import bytes_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("drafter", metavar="DRAFTER", help="the folder of a trained drafter, or builtin-medusa")
    parser.add_argument("--engine", required=True, choices=ENGINES, help="who will read it; own: Headway itself")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write, whole or not at all")
    parser.add_argument("--target", metavar="NAME", help="the target it was trained for; not needed for own")
    parser.add_argument("--speculators", action="store_true", help="EAGLE-3 for vllm in the speculators format")
    parser.add_argument("--full-head", action="store_true", help="Medusa: score the whole vocabulary, without a map")
    parser.add_argument("--embedding", action="store_true", help="write a copy of the target's embedding too")
    parser.add_argument(
        "--num-tokens", type=int, metavar="K", help="tokens drafted at a time; default: the depth of the tree"
    )
    parser.add_argument("--tuned", metavar="FILE", help="what `tune-tree --json` printed: its tree and its schedule")
    parser.add_argument("--dtype", default="stored", choices=["stored", *DTYPES], help="numbers of the weights")
    parser.add_argument("--force", action="store_true", help="export for a target of another version all the same")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Export and say what was written. Raises HeadwayError."""
    from backend.drafters.registry import folder_of

    folder = folder_of(args.drafter)
    if folder is None or not folder.is_dir():
        raise HeadwayError(f"There is no drafter folder {args.drafter}; give the folder that training wrote.")
    if args.num_tokens is not None and not 1 <= args.num_tokens <= 64:
        raise HeadwayError(f"--num-tokens must lie between 1 and 64, but it is {args.num_tokens}.")
    if args.engine != "own" and not args.target:
        raise HeadwayError("Name the target that the drafter was trained for with --target.")
    facts = loaded = None
    if args.engine != "own":
        facts = facts_of(open_target(args.target, settings, "cpu", "float32", progress=loading_bar(args.json)))
    options = ExportOptions(args.engine, args.speculators, args.full_head, args.embedding, max_tokens=args.num_tokens)
    tuned = None if args.tuned is None else Path(args.tuned)
    if args.engine != "own" and read_meta(folder).family == "mtp":  # unlike an opened one, its weights are not packed
        loaded = load_model(args.target, "cpu", "float32", settings=settings)
    written = export_drafter(folder, Path(args.out), options, facts, args.dtype, tuned, args.force, loaded)
    if args.json:
        print(json.dumps(written.to_dict()))
        return 0
    size = bytes_in_words(written.num_bytes)
    print(f"Wrote {written.out}: {written.family} for {written.engine}, {written.tensors} tensors, {size}.")
    for note in written.notes:
        say(note)
    if args.engine != "own":
        print(f"{written.out / 'README.md'} has the command that serves it.")
    return 0
