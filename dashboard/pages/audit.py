"""The Audit page: is the output still the target's own? What is audited, how sure one wants to be, the verdict and its
evidence. Lays out and wires.
"""

from __future__ import annotations

from dashboard.jobs import Jobs
from dashboard.pages.audit_handlers import AuditHandlers
from dashboard.pages.frame import LIGHT
from dashboard.pages.job_form import job_form_page
from dashboard.services import Services


def audit_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = AuditHandlers(services, jobs)
    shown = job_form_page(handlers)
    shown.quick(handlers.quick, None, shown, **LIGHT)
