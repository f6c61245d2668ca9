"""The front page: what Headway is, how far each version is, what runs, and what to do next. Lays out; meaning is in
`home` and its presenter.
"""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def home_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("home", elem_id="hw-home")
