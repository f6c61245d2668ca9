"""`read-mtp`: the MTP modules that came with a published checkpoint, as a drafter.

Reads tensors by their published names (drafters/mtp/published.py) and writes a drafter folder; trains nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from backend.drafters.checkpoint import DrafterMeta, file_sha256, read_meta
from backend.drafters.mtp.checkpoint import save_modules
from backend.drafters.mtp.published import read_published
from backend.engine.remember import register_drafter, register_version
from backend.jobs.console import loading_bar, say
from backend.jobs.recorded import add_store_arguments
from backend.settings import Settings
from backend.targets.checkpoint import weight_files
from backend.targets.loading import fetch_folder
from backend.targets.opening import open_target
from backend.targets.sources import resolve_source
from backend.trees import chain
from storage import Store

DEPTH = 4  #: of the tree stored with a single module, which is used for every depth


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", required=True, help="folder or hub id of the target")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="where the modules are; default: the target's own")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the drafter to write")
    parser.add_argument("--device", help="cuda, mps or cpu; default: the best there is")
    parser.add_argument("--dtype", help="float32, bfloat16 or float16")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python code that comes with a model")
    parser.add_argument("--half", action="store_true", help="store the drafter in half precision")
    add_store_arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read and write. Raises HeadwayError when there are no modules, or of a kind that can't be run here."""
    source = args.checkpoint or args.target
    folder = fetch_folder(resolve_source(source), args.trust_remote_code, None, settings)
    target = open_target(args.target, settings, args.device, args.dtype, args.trust_remote_code, loading_bar(args.json))
    layout, model = read_published(folder, target)
    out = Path(args.out).expanduser().absolute()
    modules = model.config.num_modules
    meta = DrafterMeta(
        family="mtp",
        name=out.name,
        config={},
        version=target.identity.to_dict(),
        tree=chain(DEPTH if model.config.form == "shared" else modules).to_json(),
        lineage={
            "read_from": Path(source).name,
            "layout": layout,
            "checkpoint_sha256": [file_sha256(file) for file in weight_files(folder)],
        },
    )
    save_modules(out, model, meta, torch.float16 if args.half else torch.float32)
    if not args.no_store:
        with Store.open(args.db or settings.database) as store:
            register_drafter(store, str(out), register_version(store, target))
    if args.json:
        print(json.dumps({"out": str(out), "layout": layout, "modules": modules, "tree": read_meta(out).tree}))
    else:
        say(f"{out.name} holds {modules} MTP module{'s' * (modules > 1)} read in {layout}'s layout, in {out}.")
    return 0
