"""A new job from another one: its settings with changes, and for training its weights to start from. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.as_text import merged
from backend.jobs.kinds import JOB_KINDS
from storage import JobRecord

OWN = ("name", "out", "pack", "work", "start_from")  #: settings that belong to one job alone


def forked_config(parent: JobRecord, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The parent's config with `changes` (nested ones setting by setting), writing to a place of its own.

    Where the kind can start from another job's weights, the new job starts from the parent's best ones.
    """
    data = {key: value for key, value in parent.config.items() if key not in OWN}
    if "start_from" in JOB_KINDS[parent.kind].config.model_fields:
        data["start_from"] = parent.id
    return merged(data, changes)
