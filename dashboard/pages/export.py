"""The Export page: which drafter goes to which engine, the folder that was written, the command that serves it, and
what the check found. Lays out and wires.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.export_handlers import ExportHandlers
from dashboard.pages.frame import LIGHT, on_load
from dashboard.services import Services


def export_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = ExportHandlers(services, jobs)
    with gr.Row(elem_id="hw-export"):
        with gr.Column(elem_id="hw-export-side", elem_classes="hw-panel", min_width=260):
            form = view("schema_form", elem_id="hw-export-form")
            text = view("job_text", elem_id="hw-export-text")
        shown = view("export", elem_id="hw-export-shown")
    form.edit(handlers.edit, None, form, trigger_mode="always_last", **LIGHT)
    form.act(handlers.act, None, [form, shown, text], **LIGHT)
    on_load(handlers.load, None, [form, shown])
