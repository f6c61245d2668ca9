"""The training of one trial: the same job that `train` runs, in the trial's own folder, and what it reached.

A trial that is measured anew goes on at its last checkpoint, and one that had trained to the end is not trained again.
Knows the training job; no sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.data.answers import pack_answers
from backend.drafters.checkpoint import META, read_meta
from backend.errors import HeadwayError
from backend.jobs.as_text import validated
from backend.jobs.context import ConsoleContext
from backend.jobs.sweep_config import SweepJobConfig
from backend.settings import Settings
from backend.sweeps.knobs import DATA_KNOB, Scalar

OUT = "drafter"


@dataclass(frozen=True)
class Trained:
    """The drafter's folder, and figures of the training by name."""

    folder: str
    figures: Mapping[str, float | None]


def train_drafter(
    config: SweepJobConfig,
    settings: Settings,
    folder: Path,
    number: int,
    values: Mapping[str, Scalar],
    stopped: Callable[[], bool],
    job_id: str | None = None,
) -> Trained:
    """Train trial `number` in folder/NUMBER. Raises HeadwayError, Cancelled."""
    from backend.jobs import train_job

    place = folder / f"{number:06d}"
    place.mkdir(parents=True, exist_ok=True)
    out = place / OUT
    if not (out / META).is_file():
        data = config.training(values) | {"out": str(out), "name": f"trial-{number}"}
        if DATA_KNOB.name in values:
            data["answers"] = str(_first_answers(Path(data["answers"]), int(values[DATA_KNOB.name]), place))
        context = ConsoleContext(settings, place, quiet=True, stopped=stopped, job_id=job_id)
        train_job.run(validated("train", data), context)  # type: ignore[arg-type]
    return Trained(str(out), _figures(read_meta(out).numbers))


def _first_answers(source: Path, count: int, place: Path) -> Path:
    """The first `count` answers as a file of their own; the same content whenever it is made."""
    from backend.data.answers import read_any

    answers = read_any(source)
    if count > len(answers):
        raise HeadwayError(f"{source.name} holds {len(answers)} answers, so {count} can't be learned from.")
    made = place / "answers.npz"
    pack_answers(answers[:count], made)
    return made


def _figures(numbers: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, key in (
        ("train_s", "train_s"),
        ("train_steps", "steps"),
        ("expected_acceptance_length", "expected_acceptance_length"),
    ):
        value = numbers.get(key)
        found[name] = float(value) if isinstance(value, (int, float)) else None
    return found
