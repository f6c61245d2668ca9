"""The Learn page: why drafting makes decoding faster, and when it does not. Lays out; meaning is in `learn`."""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def learn_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("learn", elem_id="hw-learn")
