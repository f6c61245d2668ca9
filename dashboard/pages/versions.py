"""The Versions page: the registry of targets and drafters. Lays out; meaning is in `versions` and its presenter."""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def versions_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("versions", elem_id="hw-versions")
