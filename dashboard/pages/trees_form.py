"""The left side of the Trees page: what is calibrated and timed. Wires nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from backend.errors import HeadwayError
from dashboard.components.views import view
from dashboard.pages.device_field import busy_note, device_field
from dashboard.presenters.targets import TARGETS


@dataclass(frozen=True)
class TreesValues:
    """What stands in the form, in the order of its components."""

    target: str = "smollm2-135m"
    drafter: str = "builtin-medusa"
    prompts: str = ""
    limit: float | None = 60
    max_new_tokens: float | None = 96
    temperatures: str = "0"
    seconds: float | None = 180
    batches: str = "1, 2, 4, 8"
    contexts: str = "128, 512"
    device: str = ""

    def calibration(self) -> dict[str, Any]:
        """The config of a calibrating job. Raises HeadwayError for what is missing or no number."""
        files = [line.strip() for line in (self.prompts or "").splitlines() if line.strip()]
        if not files:
            raise HeadwayError("Type the path of a file with held-out prompts; calibrating needs some.")
        return {
            "target": self.target, "drafter": self.drafter, "prompts": files,
            "limit": int(self.limit) if self.limit else None, "max_new_tokens": int(self.max_new_tokens or 0),
            "temperatures": numbers(self.temperatures, "Temperatures"), "device": self.device or None,
        }  # fmt: skip

    def timing(self) -> dict[str, Any]:
        """The config of a cost job. Raises HeadwayError for what is no number."""
        return {
            "target": self.target, "drafter": self.drafter, "seconds": float(self.seconds or 0),
            "batches": [int(one) for one in numbers(self.batches, "Batches")],
            "contexts": [int(one) for one in numbers(self.contexts, "Contexts")], "device": self.device or None,
        }  # fmt: skip

    def to_components(self) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self)]


def numbers(text: str, what: str) -> list[float]:
    """Numbers with commas between. Raises HeadwayError."""
    try:
        found = [float(part) for part in (text or "").replace(";", ",").split(",") if part.strip()]
    except ValueError:
        found = []
    if not found:
        raise HeadwayError(f"{what} are numbers with commas between, such as 1, 4; “{(text or '')[:40]}” is not.")
    return found


@dataclass(frozen=True)
class TreesForm:
    """The components; `fields` are those of TreesValues, in its order."""

    fields: list[Any]
    calibrate: gr.Button
    cost: gr.Button
    texts: dict[tuple[str, str], gr.Button]  #: by kind of job, and command or yaml
    busy: gr.HTML
    text: gr.HTML

    @property
    def target(self) -> Any:
        return self.fields[0]

    @property
    def drafter(self) -> Any:
        return self.fields[1]

    @property
    def device(self) -> Any:
        return self.fields[-1]


def build_form(first: TreesValues, drafters: list[tuple[str, str]]) -> TreesForm:
    with gr.Column(elem_id="hw-trees-form", elem_classes="hw-panel", min_width=260):
        target = gr.Dropdown(
            list(TARGETS), value=first.target, allow_custom_value=True, label="Target", elem_id="hw-trees-target",
            info="The model that is served; or type a folder, GGUF or hub id.",
        )  # fmt: skip
        drafter = gr.Dropdown(
            drafters or [(first.drafter, first.drafter)], value=first.drafter, allow_custom_value=True,
            label="Drafter", elem_id="hw-trees-drafter", info="Or a folder of heads, draft:MODEL.",
        )  # fmt: skip
        prompts = gr.Textbox(
            first.prompts, label="Held-out prompts", lines=1, max_lines=4, elem_id="hw-trees-prompts",
            info="Files it was not trained on, one a line.",
        )  # fmt: skip
        with gr.Row():
            limit = gr.Number(first.limit, label="Prompts", precision=0, min_width=90, info="First N of a file.")
            new = gr.Number(first.max_new_tokens, label="Longest answer", precision=0, min_width=90, info="In tokens.")
        temperatures = gr.Textbox(first.temperatures, label="Temperatures", lines=1, info="With commas, such as 0, 1.")
        calibrate = gr.Button("Calibrate the drafter", variant="primary", elem_id="hw-trees-calibrate")
        texts = _texts("calibrate")
        seconds = gr.Number(
            first.seconds, label="Time for measuring", precision=0, info="Seconds; more gives narrower intervals."
        )
        with gr.Row():
            batches = gr.Textbox(first.batches, label="Batches", lines=1, min_width=90, info="Sequences at once.")
            contexts = gr.Textbox(first.contexts, label="Contexts", lines=1, min_width=90, info="Tokens before.")
        cost = gr.Button("Measure the cost", variant="primary", elem_id="hw-trees-cost")
        texts |= _texts("cost")
        device = device_field(first.device, "hw-trees-device")
        busy = busy_note("hw-trees-busy")
        text = view("job_text", elem_id="hw-trees-text")
    placed = [target, drafter, prompts, limit, new, temperatures, seconds, batches, contexts, device]
    return TreesForm(placed, calibrate, cost, texts, busy, text)


def _texts(kind: str) -> dict[tuple[str, str], gr.Button]:
    """The job as a command and as a file."""
    with gr.Row(elem_classes="hw-texts"):
        return {
            (kind, form): gr.Button(label, size="sm", min_width=width, elem_id=f"hw-trees-{kind}-{form}")
            for form, label, width in (("command", "Copy as command", 100), ("yaml", "As YAML", 80))
        }
