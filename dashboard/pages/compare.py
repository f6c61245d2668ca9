"""The Compare page: runs beside each other. Lays out; meaning is in `comparing`, its presenter and backend/analysis."""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def compare_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("compare", elem_id="hw-compare")
