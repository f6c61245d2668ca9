"""The Trees page: what a drafter guesses right, what a step costs here, and the tree that follows. Lays out and wires.

Python starts jobs; what is chosen and dragged stays in the browser (js/views/trees.js).
"""

from __future__ import annotations

from functools import partial

import gradio as gr

from dashboard.components.plotly_js import plotly_path
from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.device_field import wire_device
from dashboard.pages.frame import LIGHT, on_load
from dashboard.pages.trees_form import build_form
from dashboard.pages.trees_handlers import TreesHandlers
from dashboard.services import Services


def trees_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = TreesHandlers(services, jobs)
    with gr.Row(elem_id="hw-trees"):
        form = build_form(handlers.first(), handlers.drafters(services.settings.default_target))
        shown = view("trees", {"plotly": plotly_path()}, elem_id="hw-trees-shown")
    form.calibrate.click(handlers.calibrate, form.fields, shown, **LIGHT)
    form.cost.click(handlers.cost, form.fields, shown, **LIGHT)
    for (kind, words), button in form.texts.items():
        button.click(partial(handlers.text, kind, words), form.fields, form.text, **LIGHT)
    wire_device(form.device, form.busy)
    form.target.input(handlers.choices, form.target, form.drafter, **LIGHT)
    shown.measure(handlers.measure, None, shown, **LIGHT)
    shown.keep(handlers.keep, None, shown, **LIGHT)
    shown.begin(handlers.begin, form.fields, shown, **LIGHT)
    on_load(handlers.load, None, [*form.fields, shown])
