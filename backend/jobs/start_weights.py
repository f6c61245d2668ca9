"""The weights a training job starts from when it does not start fresh: those of another job or of a trained drafter.

Copied into the job's own folder at its first attempt, so that later attempts start from the same ones whatever happens
to the other job. Knows files; what fits is the family's business (drafters/recipe.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backend.drafters.checkpoint import META, read_folder
from backend.errors import HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.fork import RUN, run_folder, start_of
from backend.training.kept import kept_steps, weights_file
from backend.training.state import BEST, STATE, load_state, save_state
from storage.errors import NotFoundError

START = "start.pt"


@dataclass(frozen=True)
class Start:
    """`weights` of a drafter of `family`; `lineage` says where they are from; `digest` is their hash."""

    family: str
    weights: dict[str, Tensor]
    lineage: dict[str, Any]
    digest: str


def starting_weights(start_from: str | None, work: Path, context: JobContext) -> Start | None:
    """What `start_from` names, None for fresh weights. Raises HeadwayError when there is nothing to start from."""
    if start_from is None:
        return None
    kept = load_state(work, START)
    if kept is None:
        kept = _found(start_from, context)
        kept["digest"] = digest(kept["weights"])
        save_state(work, kept, START)
    return Start(kept["family"], kept["weights"], kept["lineage"], kept["digest"])


def _found(start_from: str, context: JobContext) -> dict[str, Any]:
    name, step = start_of(start_from)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if (folder / META).is_file():
            if step is not None:
                raise HeadwayError(f"{name} is a finished drafter without steps; leave @{step} out.")
            meta, tensors = read_folder(folder)
            lineage = {"drafter": meta.name, "weights_sha256": meta.weights_sha256}
            return {"family": meta.family, "weights": tensors, "lineage": lineage}
        return _from_run(folder if _has_state(folder) else folder / RUN, step, {"folder": folder.name})
    run = context.settings.jobs / name / RUN
    if context.store is not None:
        try:
            run = run_folder(context.store.get_job(name), context.settings)
        except NotFoundError:
            raise HeadwayError(
                f"There is no job and no folder {name!r} to start from; give a training job's id or a folder."
            ) from None
    return _from_run(run, step, {"job": name})


def _has_state(folder: Path) -> bool:
    return (folder / BEST).is_file() or (folder / STATE).is_file()


def _from_run(folder: Path, step: int | None, lineage: dict[str, Any]) -> dict[str, Any]:
    """The weights of a step of a training run; without one the best, else its last ones."""
    names = [BEST, STATE] if step is None else [weights_file(step), BEST, STATE]
    states = [state for name in names if (state := load_state(folder, name)) is not None]
    if not states and not kept_steps(folder):
        raise HeadwayError(f"{folder} holds no checkpoint to start from; choose a job that has trained for a while.")
    state = next((state for state in states if step is None or state["step"] == step), None)
    if state is None:
        there = sorted({*kept_steps(folder), *(other["step"] for other in states)})
        raise HeadwayError(
            f"{folder} keeps no weights of step {step}; it keeps those of {', '.join(map(str, there))} "
            "(kept_checkpoints says how many)."
        )
    family = state.get("family") or state["run"]["family"]
    return {"family": family, "weights": state["model"], "lineage": lineage | {"step": state["step"]}}


def digest(weights: Mapping[str, Tensor]) -> str:
    """The same for equal weights under equal names."""
    found = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        found.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return found.hexdigest()
