"""The Audit page: is the output still the target's own? What is audited, how sure one wants to be, the verdict and its
evidence. Lays out and wires.
"""

from __future__ import annotations

import gradio as gr

from dashboard.components.views import view
from dashboard.jobs import Jobs
from dashboard.pages.audit_handlers import AuditHandlers
from dashboard.pages.frame import LIGHT, on_load
from dashboard.services import Services


def audit_page(services: Services, jobs: Jobs) -> None:
    """Builds the page inside its route."""
    handlers = AuditHandlers(services, jobs)
    with gr.Row(elem_id="hw-audit"):
        with gr.Column(elem_id="hw-audit-side", elem_classes="hw-panel", min_width=260):
            form = view("schema_form", elem_id="hw-audit-form")
            text = view("job_text", elem_id="hw-audit-text")
        shown = view("audit", elem_id="hw-audit-shown")
    form.edit(handlers.edit, None, form, trigger_mode="always_last", **LIGHT)
    form.act(handlers.act, None, [form, shown, text], **LIGHT)
    shown.quick(handlers.quick, None, shown, **LIGHT)
    on_load(handlers.load, None, [form, shown])
