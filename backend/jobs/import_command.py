"""`import`: read a drafter that others published, from a folder, a file or the hub. Writes one folder, no store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backend.formats.importing import import_drafter
from backend.jobs.console import loading_bar, say
from backend.settings import Settings
from backend.targets.opening import open_to_read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="PATH_OR_HUB_ID", help="a folder, a weight file, or owner/name of the hub")
    parser.add_argument("--target", required=True, metavar="NAME", help="the target that the drafter is for")
    parser.add_argument("--out", required=True, metavar="DIR", help="the drafter folder to write")
    parser.add_argument("--name", help="what it is called (default: from the source)")
    parser.add_argument(
        "--layer-ids", default="auto", choices=["auto", "input", "output"],
        help="EAGLE-3: whether its layer numbers name the state entering a layer (vLLM) or leaving it (SGLang)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import and say what was read. Raises HeadwayError."""
    target = open_to_read(args.target, settings, loading_bar(args.json))
    made = import_drafter(args.source, target, Path(args.out), args.layer_ids, args.name)
    if args.json:
        print(json.dumps(made.to_dict()))
        return 0
    print(f"Wrote {made.out}: {made.family}, from {made.layout}.")
    for note in made.notes:
        say(note)
    return 0
