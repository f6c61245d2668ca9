"""The Serve page: a vLLM server with a drafter, what it counts while it runs, and how it does under load and beside
Headway's own decoding. Lays out and wires.

Python starts jobs; what a server counts reaches the page by its feed, so a reload or a closed tab changes nothing.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.frame import LIGHT, on_load
from dashboard.pages.serve_form import build_form
from dashboard.pages.serve_handlers import ServeHandlers
from dashboard.services import Services


def serve_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = ServeHandlers(services, jobs)
    with gr.Row(elem_id="hw-serve"):
        form = build_form(handlers.first(), handlers.drafters(services.settings.default_target))
        shown = view("serve", elem_id="hw-serve-shown")
    form.start.click(handlers.serve, form.fields, shown, **LIGHT)
    form.watch.click(handlers.watch, form.fields, shown, **LIGHT)
    form.load.click(handlers.measure, form.fields, shown, **LIGHT)
    form.compare.click(handlers.compare, form.fields, shown, **LIGHT)
    form["target"].input(handlers.choices, form["target"], form["drafter"], **LIGHT)
    form["server"].focus(handlers.offered_servers, form["server"], form["server"], **LIGHT)
    on_load(handlers.load, None, [*form.fields, shown])
