"""The Adapters page: several LoRA adapters of one target, and which of them earns draft heads of its own. Lays out and
wires.
"""

from __future__ import annotations

from dashboard.jobs import Jobs
from dashboard.pages.adapters_handlers import AdaptersHandlers
from dashboard.pages.job_form import job_form_page
from dashboard.services import Services


def adapters_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    job_form_page(AdaptersHandlers(services, jobs))
