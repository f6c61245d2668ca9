"""The Sweep page: what is turned and what is wanted, the trials as they come in, and which of them to use. Lays out and
wires; meaning is in the presenters and in backend/sweeps.

Python checks the form and starts jobs; the charts are the browser's own, so that brushing asks nobody.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.frame import LIGHT, on_load
from dashboard.pages.sweep_handlers import SweepHandlers
from dashboard.pages.sweep_tables import Sweeps
from dashboard.services import Services


def sweep_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = SweepHandlers(services, jobs, Sweeps(jobs))
    with gr.Row(elem_id="hw-sweep"):
        with gr.Column(elem_id="hw-sweep-side", elem_classes="hw-panel", min_width=260):
            form = view("sweep_form", elem_id="hw-sweep-form")
            text = view("sweep_text", elem_id="hw-sweep-text")
        shown = view("sweep", elem_id="hw-sweep-shown")
    form.edit(handlers.edit, None, form, trigger_mode="always_last", **LIGHT)
    form.act(handlers.act, None, [form, shown, text], **LIGHT)
    shown.quick(handlers.quick, None, [form, shown], **LIGHT)
    on_load(handlers.load, None, [form, shown])
