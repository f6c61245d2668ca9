"""The Train page: settings with a plan beside them, and the job that is shown with its live curves. Lays out and wires.

Python makes the form, plans and starts jobs; what happens in a job reaches the views over the page's own connection
(js/feed.js), so a reload, a second browser or a closed tab changes nothing.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.plotly_js import plotly_path
from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.frame import LIGHT, on_load
from dashboard.pages.train_handlers import TrainHandlers
from dashboard.services import Services


def train_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = TrainHandlers(services, jobs)
    link = view("train_link", elem_id="hw-train-link")
    first = view("train_start", elem_id="hw-train-first")
    with gr.Row(elem_id="hw-train"):
        with gr.Column(elem_id="hw-train-form", elem_classes="hw-panel", min_width=260):
            form = view("schema_form", elem_id="hw-train-fields")
            text = view("train_text", elem_id="hw-train-text")
        with gr.Column(elem_id="hw-train-stage"):
            job = view("train_job", elem_id="hw-train-job")
            view("charts", {"plotly": plotly_path()}, elem_id="hw-train-charts")
            planned = view("train_plan", elem_id="hw-train-plan")
            kinds = ["train", "joint", "finetune", "plan"]
            view("jobs", {"title": "Training jobs", "kinds": kinds, "empty": ""}, elem_id="hw-train-jobs")
    form.edit(handlers.edit, None, [form, planned], trigger_mode="always_last", **LIGHT)
    form.act(handlers.act, None, [form, link, text], **LIGHT)
    first.begin(handlers.begin, None, [form, link, planned], **LIGHT)
    job.fork(handlers.fork, None, [form, link, planned], **LIGHT)
    job.text(handlers.text, None, text, **LIGHT)
    planned.measure(handlers.measure, None, [form, planned], **LIGHT)
    planned.measured(handlers.measured, None, planned, **LIGHT)
    on_load(handlers.load, None, [form, link, planned, first])
