"""The Race page: one prompt, two to four lanes side by side. Lays out; meaning is in `races` and the engine."""

from __future__ import annotations

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.live_form import TREES
from dashboard.presenters.prompts import demo_prompts
from dashboard.services import Services


def race_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    settings = services.settings
    value = {"target": settings.default_target, "trees": list(TREES), "demos": demo_prompts(settings.demo_prompts)}
    view("race", value, elem_id="hw-race")
