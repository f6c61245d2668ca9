"""What the measurements share: arguments, prompts, the target, transformers' own model beside it, and conditions."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from backend.data.prompts import Prompt, read_prompts
from backend.engine.conditions import cpu_name, device_name, packages
from backend.errors import HeadwayError
from backend.jobs.asking import encode_first
from backend.jobs.provenance import ROOT, git_commit
from backend.settings import Settings
from backend.targets.loading import load_model
from backend.targets.opening import open_target
from backend.targets.target import Target
from tools.openmp_env import openmp_env


def start_fast(module: str) -> None:
    """Start this process again with the OpenMP settings the application runs with, before anything is measured."""
    wanted = openmp_env(Path(sys.prefix), os.environ)
    if wanted and os.environ.get("HEADWAY_OPENMP") != "set":
        environ = {**os.environ, **wanted, "HEADWAY_OPENMP": "set"}
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environ)


def add_prompt_arguments(parser: argparse.ArgumentParser, limit: int, new_tokens: int) -> None:
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument(
        "--prompts", nargs="+", default=["prompts/heldout.jsonl"], metavar="FILE", help="prompt files, reported apart"
    )
    parser.add_argument("--limit", type=int, default=limit, help="first N prompts of each file")
    parser.add_argument("--max-new-tokens", type=int, default=new_tokens)
    parser.add_argument("--out", metavar="FILE.json", help="also write all numbers there")


def prompt_sets(paths: Sequence[str], limit: int) -> dict[str, list[Prompt]]:
    """File name without ending -> its first prompts."""
    return {Path(path).stem: list(read_prompts(path, limit=limit).prompts) for path in paths}


def first_turn_ids(target: Target, prompt: Prompt, room: int) -> list[int]:
    """What is asked first, through the template; raises HeadwayError when it leaves no `room` in the context."""
    ids = encode_first(target, prompt)
    if len(ids) + room > target.max_context:
        raise HeadwayError(f"{prompt.question_id} has {len(ids)} tokens, too many for {target.name}.")
    return ids


def open_both(name: str, with_reference: bool) -> tuple[Target, Any]:
    """(our target, transformers' model of the same weights or None), float32 on the CPU or as the device wants it."""
    settings = Settings.from_environ()
    target = open_target(name, settings)
    reference = load_model(name, settings=settings).model if with_reference else None
    return target, reference


@torch.inference_mode()
def generate_ms(reference: Any, ids: list[int], new_tokens: int) -> tuple[list[int], float]:
    """transformers' greedy `generate`: (tokens, milliseconds of the steps after the first token)."""
    batch = torch.tensor([ids], device=reference.device)

    def run(count: int) -> tuple[list[int], float]:
        started = time.perf_counter()
        out = reference.generate(batch, attention_mask=torch.ones_like(batch), max_new_tokens=count, do_sample=False)
        return out[0, len(ids) :].tolist(), 1000 * (time.perf_counter() - started)

    _, first = run(1)
    tokens, whole = run(new_tokens)
    return tokens, whole - first


def median_ms(function: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a call; one call before it warms up."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def conditions(target: Target) -> dict[str, Any]:
    """Written beside every number."""
    return {
        "target": target.name,
        "version": target.identity.short,
        "device": device_name(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "packages": packages(),
    }


def machine() -> dict[str, Any]:
    """Conditions of a measurement that is not about one target: machine, versions, the code's commit."""
    return {
        "processor": cpu_name(),
        "processors": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "packages": packages(),
        "commit": git_commit(ROOT),
    }


def write_results(args: argparse.Namespace, target: Target, rows: Sequence[dict[str, Any]]) -> None:
    """The numbers so far and what they were measured with, to `--out` where one is given; folders are left out."""
    if not args.out:
        return
    asked = {key: value for key, value in vars(args).items() if key != "out"}
    asked["prompts"] = [Path(path).name for path in args.prompts]
    data = {"conditions": conditions(target) | asked, "rows": list(rows)}
    Path(args.out).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
