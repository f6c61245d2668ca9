"""The state of an unfinished training run on disk: written atomically, read with suspicion.

One file holds everything that the next step depends on: weights, optimiser, step, random state, the settings and the
data it belongs to. The order of the data follows from seed and epoch, so the step is also the place in the data. Other
files of the same kind keep the best weights so far, and those of the newest checkpoints (kept.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from backend.drafters.checkpoint import flush_to_disk
from backend.errors import HeadwayError

STATE: Final = "training-state.pt"
BEST: Final = "best.pt"


def save_state(folder: Path, state: Mapping[str, Any], name: str = STATE) -> None:
    """Replace a state; a kill at any moment leaves the old or the new one whole. Raises HeadwayError (disk full,
    read-only).
    """
    path, partial = folder / name, folder / f".{name}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(dict(state), partial)
        flush_to_disk(partial)
        os.replace(partial, path)
        flush_to_disk(folder)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        raise HeadwayError(
            f"The training state could not be written to {folder} ({_why(error)}); make room there and resume, "
            "the checkpoint before it is kept."
        ) from error


def load_state(folder: Path, name: str = STATE) -> dict[str, Any] | None:
    """The state written last, None when there is none. Raises HeadwayError when it is damaged."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch errors alike mean a damaged file
        raise HeadwayError(f"{path} is damaged, so training can't resume; delete it to start over.") from error
    return state


def check_same_run(state: Mapping[str, Any], run: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a run with other settings or data. Raises HeadwayError that names what differs."""
    stored = state["run"]
    differs = sorted(key for key in run.keys() | stored.keys() if stored.get(key) != run.get(key))
    if differs:
        raise HeadwayError(
            f"{folder} holds an unfinished run that differs in {', '.join(differs)}; "
            "use its settings or another folder."
        )


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """The global generators a step may draw from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_state(states: Mapping[str, torch.Tensor], device: torch.device) -> None:
    """Undo what was drawn since `random_state`."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
