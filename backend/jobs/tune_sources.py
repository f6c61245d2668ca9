"""Where a calibration, a cost curve or a tuned tree comes from: a file, or a finished job of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.calibrate_job import calibration_of
from backend.jobs.cost_job import curve_from_items
from backend.tuning.calibration import Calibration, calibration_from
from backend.tuning.cost_curve import CostCurve
from backend.tuning.files import read_cost
from storage import JobRecord, Store, StoreError


def calibration_at(text: str, store: Store | None) -> Calibration:
    """Raises HeadwayError for what is neither a calibration's file nor a finished calibrating job."""
    path = Path(text).expanduser()
    if not path.is_file():
        found = calibration_of(_items(text, "calibrate", store))
        if not found.positions:
            raise HeadwayError(f"The calibration {text} is empty; calibrate with more prompts.")
        return found
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise HeadwayError(f"{text} is no calibration; take a file that `calibrate` wrote.") from None
    return calibration_from(data, text)


def cost_at(text: str, store: Store | None) -> CostCurve:
    """Raises HeadwayError for what is neither a cost curve's file nor a finished cost job."""
    if Path(text).expanduser().is_file():
        return read_cost(Path(text).expanduser())
    return curve_from_items(_items(text, "cost", store))


def tuned_at(text: str, store: Store | None) -> Path:
    """The file of a tuned tree. Raises HeadwayError for what is neither such a file nor a finished tuning job."""
    path = Path(text).expanduser()
    if path.is_file():
        return path
    result = _finished(text, "tune-tree", _there(text, store)).result or {}
    return Path(str(result.get("file", "")))


def _items(text: str, kind: str, store: Store | None) -> dict[str, dict[str, Any]]:
    found = _there(text, store)
    return {item.key: item.data for item in found.items(_finished(text, kind, found).id)}


def _there(text: str, store: Store | None) -> Store:
    if store is None or "/" in text or text.endswith(".json"):
        raise HeadwayError(f"{text} can't be read: there is no such file.")
    return store


def _finished(text: str, kind: str, store: Store) -> JobRecord:
    try:
        job = store.get_job(text)
    except StoreError:
        raise HeadwayError(f"{text} is neither a file nor a job; give what `{kind}` wrote, or its job's id.") from None
    if job.kind != kind:
        raise HeadwayError(f"The job {text} is no {kind} job but {job.kind}; give one of `{kind}`.")
    if job.status != "finished":
        raise HeadwayError(f"The job {text} is {job.status}; wait until it is finished.")
    return job
