"""The Data page: prompts and answers, from a file to what can be trained on. Lays out; what it asks is answered by the
routes in `data_routes`, and its parts are drawn in js/views/data*.js.
"""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.services import Services


def data_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    view("data", elem_id="hw-data")
