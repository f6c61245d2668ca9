"""How many recorded steps are kept: what a person chose on the page, as a small file in Headway's home folder.

Torch-free: the page writes it, the engine reads it when it starts. Knows no store.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.errors import HeadwayError

FILE = "retention.json"


class Retention(BaseModel):
    """Bounds on recorded steps; the oldest go first, and the runs' numbers stay. None: no bound of that kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_runs: int | None = Field(None, ge=0, description="runs that keep their steps")
    max_bytes: int | None = Field(1 << 30, ge=0, description="bytes of steps")


def read_retention(home: Path) -> Retention:
    """What was chosen; the defaults where nothing was, or where the file can't be read as one."""
    try:
        return Retention.model_validate_json((home / FILE).read_bytes())
    except (OSError, ValidationError):
        return Retention()


def write_retention(home: Path, chosen: Retention) -> None:
    """Remember the choice. Raises HeadwayError with one sentence when it can't be written."""
    partial = home / f"{FILE}.partial"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(chosen.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(home / FILE)
    except OSError as error:
        raise HeadwayError(
            f"The bounds can't be kept in {home} ({error.strerror}); make it writable, or make room."
        ) from error
