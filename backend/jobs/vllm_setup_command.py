"""`vllm-setup`: makes the environment that vLLM runs in, apart from Headway's own. Starts tools/setup_vllm.py."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from backend.errors import HeadwayError
from backend.serving.environment import installed_in
from backend.settings import Settings

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "setup_vllm.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="what to install for")
    parser.add_argument(
        "--dir", metavar="FOLDER", help="where; default: HEADWAY_VLLM, else vllm in Headway's home folder"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Install, or say what is there. The script's own sentence and exit code are passed on."""
    folder = Path(args.dir).expanduser().absolute() if args.dir else settings.vllm_env
    own = installed_in(Path(sys.prefix))
    if own is not None and args.dir is None and settings.vllm is None and args.device in ("auto", own.build):
        return _told(args.json, Path(sys.prefix), own.version, own.build)
    code = subprocess.call([sys.executable, str(SCRIPT), str(folder), "--device", args.device], stdout=sys.stderr)
    if code != 0:
        return code
    made = installed_in(folder)
    if made is None:
        raise HeadwayError(f"The set-up ended well, but there is no vLLM in {folder}; delete the folder and try again.")
    return _told(args.json, folder, made.version, made.build)


def _told(as_json: bool, folder: Path, version: str, build: str) -> int:
    if as_json:
        print(json.dumps({"folder": str(folder), "version": version, "build": build}))
    else:
        print(f"vLLM {version} ({build} build) is in {folder}.")
    return 0
