"""The Export page: which drafter goes to which engine, the folder that was written, the command that serves it, and
what the check found. Lays out and wires.
"""

from __future__ import annotations

from dashboard.jobs import Jobs
from dashboard.pages.export_handlers import ExportHandlers
from dashboard.pages.job_form import job_form_page
from dashboard.services import Services


def export_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    job_form_page(ExportHandlers(services, jobs))
