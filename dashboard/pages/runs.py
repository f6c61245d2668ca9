"""The Runs page: all stored runs as one table. Lays out; meaning is in `run_table` and its presenter."""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def runs_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("run_table", elem_id="hw-runs")
