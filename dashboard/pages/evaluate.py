"""The Evaluate page: choose drafters and prompt sets, watch the table fill. Lays out and wires; meaning is in the
presenter and in backend/analysis.

Python starts jobs and computes tables; how far a job is reaches the page by its feed.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.device_field import wire_device
from dashboard.pages.evaluate_form import EvaluateForm, build_form
from dashboard.pages.evaluate_handlers import Handlers
from dashboard.pages.evaluate_tables import Tables
from dashboard.pages.frame import LIGHT, on_load
from dashboard.services import Services


def evaluate_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = Handlers(services, jobs, Tables(jobs))
    first = handlers.first()
    with gr.Row(elem_id="hw-evaluate"):
        form = build_form(first, handlers.drafters(first.target), handlers.sets())
        shown = view("evaluate", elem_id="hw-evaluate-shown")
    wire(form, shown, handlers)
    on_load(handlers.load, None, [*form.fields, form.note, shown])


def wire(form: EvaluateForm, shown: gr.HTML, handlers: Handlers) -> None:
    """Which event calls what."""
    form.start.click(handlers.start, form.fields, shown, **LIGHT)
    shown.quick(handlers.quick, None, shown, **LIGHT)
    form.copy.click(handlers.command, form.fields, form.text, **LIGHT)
    form.yaml.click(handlers.yaml, form.fields, form.text, **LIGHT)
    wire_device(form["device"], form.busy)
    form["target"].input(handlers.choices, form["target"], form["drafters"], **LIGHT)
    # `change` also follows what Python fills in, so that the note always speaks of what stands in the form.
    changes = [one.change for one in form.fields if one is not form["target"]]
    gr.on(changes, handlers.note, form.fields, form.note, trigger_mode="always_last", **LIGHT)
