"""Where a calibration or a cost curve comes from: a file, or a finished job of the store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.calibrate_job import calibration_of
from backend.jobs.cost_job import curve_from_items
from backend.settings import Settings
from backend.tuning.calibration import Calibration, calibration_from
from backend.tuning.cost_curve import CostCurve
from backend.tuning.files import read_cost
from storage import Store, StoreError


def calibration_at(text: str, args: argparse.Namespace, settings: Settings) -> Calibration:
    """Raises HeadwayError for what is neither a calibration's file nor a finished calibrating job."""
    path = Path(text).expanduser()
    if not path.is_file():
        found = calibration_of(_items(text, "calibrate", args, settings))
        if not found.positions:
            raise HeadwayError(f"The calibration {text} is empty; calibrate with more prompts.")
        return found
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise HeadwayError(f"{text} is no calibration; take a file that `calibrate` wrote.") from None
    return calibration_from(data, text)


def cost_at(text: str, args: argparse.Namespace, settings: Settings) -> CostCurve:
    """Raises HeadwayError for what is neither a cost curve's file nor a finished cost job."""
    if Path(text).expanduser().is_file():
        return read_cost(Path(text).expanduser())
    return curve_from_items(_items(text, "cost", args, settings))


def _items(text: str, kind: str, args: argparse.Namespace, settings: Settings) -> dict[str, dict[str, Any]]:
    if args.no_store or "/" in text or text.endswith(".json"):
        raise HeadwayError(f"{text} can't be read: there is no such file.")
    with Store.open(args.db or settings.database) as store:
        try:
            job = store.get_job(text)
        except StoreError:
            raise HeadwayError(
                f"{text} is neither a file nor a job; give what `{kind}` wrote, or its job's id."
            ) from None
        if job.kind != kind:
            raise HeadwayError(f"The job {text} is no {kind} job but {job.kind}; give one of `{kind}`.")
        if job.status != "finished":
            raise HeadwayError(f"The job {text} is {job.status}; wait until it is finished.")
        return {item.key: item.data for item in store.items(job.id)}
