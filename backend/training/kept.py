"""The weights of earlier steps that a training keeps beside its checkpoint: which there are, and which have to go.

One file a step, in the run's folder. Knows names, not what is in the files. Torch-free.
"""

from __future__ import annotations

import re
from pathlib import Path

_FILE = re.compile(r"weights-([0-9]{1,18})\.pt")


def weights_file(step: int) -> str:
    """The name of the file with the weights of a step."""
    return f"weights-{step}.pt"


def kept_steps(folder: Path) -> list[int]:
    """The steps whose weights are kept in a run's folder, ascending; none where there is no such folder."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(found[1]) for name in names if (found := _FILE.fullmatch(name)))


def forget_weights_before(folder: Path, count: int) -> None:
    """Delete all but the newest `count`."""
    steps = kept_steps(folder)
    for step in steps[: max(0, len(steps) - count)]:
        (folder / weights_file(step)).unlink(missing_ok=True)


def forget_weights_after(folder: Path, step: int) -> None:
    """Delete those of the steps after `step`."""
    for later in kept_steps(folder):
        if later > step:
            (folder / weights_file(later)).unlink(missing_ok=True)
