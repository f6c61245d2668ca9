"""The Doctor page: why is my acceptance low? Who is looked at, the causes by what mending them gains, and how. Lays out
and wires.
"""

from __future__ import annotations

from dashboard.jobs import Jobs
from dashboard.pages.doctor_handlers import DoctorHandlers
from dashboard.pages.job_form import job_form_page
from dashboard.services import Services


def doctor_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    job_form_page(DoctorHandlers(services, jobs))
