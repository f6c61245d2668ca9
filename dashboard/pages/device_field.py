"""The device of a form: a field that is usually left alone, and the note that offers the CPU while another has the
device. Knows no job.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from dashboard.components.views import view
from dashboard.pages.frame import LIGHT

CHOICES = (("The engine's own", ""), ("The CPU", "cpu"))


def device_field(value: str, elem_id: str) -> gr.Dropdown:
    """Which device the work is for; empty: the engine's."""
    return gr.Dropdown(
        list(CHOICES), value=value, allow_custom_value=True, label="Device", elem_id=elem_id,
        info="The CPU works beside whoever has the engine's device.",
    )  # fmt: skip


def busy_note(elem_id: str) -> gr.HTML:
    """Place it above the button that starts the work."""
    return view("busy", {"device": ""}, elem_id=elem_id, elem_classes="hw-busy-place")


def wire_device(field: gr.Dropdown, note: gr.HTML) -> None:
    """The note's answer sets the field, and the note speaks of what stands in it."""
    note.choose(chosen, None, [field, note], **LIGHT)
    field.change(spoken_of, field, note, **LIGHT)


def chosen(event: gr.EventData) -> tuple[str, dict[str, Any]]:
    """The field, and the note: it says so when it is so."""
    return str(event.device), spoken_of(str(event.device))


def spoken_of(device: str | None) -> dict[str, Any]:
    return {"device": device or ""}
