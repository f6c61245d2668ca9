"""The guide of the Learn page: words from their files, figures from the store and from the project's measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from backend.glossary import glossary
from backend.guide import guide
from dashboard.jobs import Jobs
from dashboard.pages.evaluate_tables import KIND, Tables
from dashboard.presenters.guide import (
    Measured,
    from_equality_file,
    from_evaluation,
    from_families_file,
    from_speed_file,
    guide_view,
    own_results,
)
from dashboard.runs import PERSONS_ERRORS

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
READERS = {"families": from_families_file, "equality": from_equality_file}
LOOKED_BACK = 6  #: evaluations that are searched


def guided(jobs: Jobs, tables: Tables, results: Path = RESULTS) -> dict[str, Any]:
    """What the page shows. Measurements of this store come first, the newest of them foremost."""
    return guide_view(guide(), glossary(), [*_evaluated(jobs, tables), *_measured_by_us(results)])


def _evaluated(jobs: Jobs, tables: Tables) -> list[Measured]:
    found: list[Measured] = []
    try:
        for job in jobs.list(kinds=[KIND], statuses=["finished"], limit=LOOKED_BACK):
            setup, rows = tables.look(job.id)
            found += from_evaluation(job.id, setup or {}, rows)
    except PERSONS_ERRORS:  # the words are worth showing without figures
        return found
    return found


def _measured_by_us(folder: Path) -> list[Measured]:
    found: list[Measured] = []
    for kind, path in own_results(folder):
        data = json.loads(path.read_text(encoding="utf-8"))
        found += from_speed_file(path.name, data) if kind == "speed" else READERS[kind](data)
    return found
