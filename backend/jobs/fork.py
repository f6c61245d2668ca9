"""A new job from another one: its settings with changes, and for training its weights to start from. Torch-free.

`start_from` is a job's id or a folder, and with @STEP behind it means the weights of that step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.jobs.as_text import merged
from backend.jobs.kinds import JOB_KINDS
from backend.settings import Settings
from storage import JobRecord

RUN = "run"  #: where in a job's folder training keeps its state
OWN = ("name", "out", "pack", "work", "start_from")  #: settings that belong to one job alone


def forked_config(parent: JobRecord, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The parent's config with `changes` (nested ones setting by setting), writing to a place of its own.

    Where the kind can start from another job's weights, the new job starts from the parent's best ones.
    """
    data = {key: value for key, value in parent.config.items() if key not in OWN}
    if "start_from" in JOB_KINDS[parent.kind].config.model_fields:
        data["start_from"] = parent.id
    return merged(data, changes)


def start_of(text: str) -> tuple[str, int | None]:
    """What `start_from` names, and the step it asks for: None for the best weights. A folder whose name ends like a
    step is that folder.
    """
    found = re.fullmatch(r"(.+)@([0-9]{1,18})", text, re.DOTALL)
    if found is None or Path(text).expanduser().is_dir():
        return text, None
    return found[1], int(found[2])


def run_folder(job: JobRecord, settings: Settings) -> Path:
    """Where a training job keeps its state and its weights."""
    work = job.config.get("work")
    return (Path(work).expanduser() if work else settings.jobs / job.id) / RUN
