"""What the front page asks: versions and how far they are, the next action, recent runs. Joins the store's answers.

Knows no Gradio and no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.jobs import Jobs
from dashboard.presenters.home import Known, is_first_visit, next_action, version_rows
from dashboard.presenters.runs import run_row
from dashboard.services import Services

NUM_RUNS = 8


def home(services: Services, jobs: Jobs, pages: Sequence[str]) -> dict[str, Any]:
    """{first, next, versions, runs, num_runs}. `pages` are the addresses that exist."""
    store = services.store
    if store is None:
        known, runs = Known(), []
    else:
        running = jobs.list(statuses=("running",), limit=1)
        known = Known(
            versions=store.list_versions(),
            drafters=store.list_drafters(),
            datasets=store.list_datasets(),
            finished_jobs=jobs.list(statuses=("finished",), limit=500),
            running_job=running[0] if running else None,
            num_runs=store.count_runs(),
        )
        runs = store.list_runs(limit=NUM_RUNS)
    return {
        "first": is_first_visit(known),
        "next": next_action(known, pages),
        "versions": version_rows(known),
        "runs": [run_row(run) for run in runs],
        "num_runs": known.num_runs,
    }
