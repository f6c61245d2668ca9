"""The left side of the Evaluate page: what is measured on what, each field with one line of help. Wires nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import gradio as gr

from backend.errors import HeadwayError
from dashboard.components.views import view
from dashboard.pages.device_field import busy_note, device_field
from dashboard.presenters.targets import TARGETS

EXACT, TYPICAL = "rejection", "typical"


@dataclass(frozen=True)
class EvaluateValues:
    """What stands in the form; names are those of its components."""

    target: str = "smollm2-135m"
    drafters: list[str] = field(default_factory=list)
    more_drafters: str = ""
    sets: list[str] = field(default_factory=list)
    more_files: str = ""
    limit: float | None = 20
    temperatures: str = "0, 1"
    batches: str = "1"
    max_new_tokens: float = 128
    trees: str = ""
    rule: str = EXACT
    epsilon: float = 0.09
    delta: float = 0.3
    sampled: bool = False
    force: bool = False
    seed: float = 0
    name: str = ""
    device: str = ""

    def to_components(self) -> list[Any]:
        return [getattr(self, one.name) for one in fields(self)]

    def to_config(self) -> dict[str, Any]:
        """The job's config. Raises HeadwayError with one sentence for what is no number or missing."""
        drafters = [*self.drafters, *_lines(self.more_drafters)]
        files = [*self.sets, *_lines(self.more_files)]
        if not drafters:
            raise HeadwayError("Choose at least one drafter; plain decoding is measured beside it.")
        if not files:
            raise HeadwayError("Choose at least one prompt set, or type the path of a prompt file.")
        return {
            "target": self.target,
            "drafters": drafters,
            "prompts": files,
            "trees": _lines(self.trees),
            "limit": None if not self.limit else int(self.limit),
            "temperatures": _numbers(self.temperatures, "Temperatures"),
            "batches": [int(value) for value in _numbers(self.batches, "Batches")],
            "max_new_tokens": int(self.max_new_tokens or 0),
            "rule": self.rule,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sampled": self.sampled,
            "force": self.force,
            "seed": int(self.seed or 0),
            "name": self.name.strip() or None,
            "device": (self.device or "").strip() or None,
        }


def values_from(config: dict[str, Any], offered_drafters: list[str], offered_sets: list[str]) -> EvaluateValues:
    """The form of a stored config: what is not offered as a choice stands in the text boxes."""
    drafters, files = list(config.get("drafters", [])), list(config.get("prompts", []))
    first = EvaluateValues()
    plain = {one.name: config.get(one.name, getattr(first, one.name)) for one in fields(EvaluateValues)}
    return EvaluateValues(
        **plain
        | {
            "drafters": [one for one in drafters if one in offered_drafters],
            "more_drafters": "\n".join(one for one in drafters if one not in offered_drafters),
            "sets": [one for one in files if one in offered_sets],
            "more_files": "\n".join(one for one in files if one not in offered_sets),
            "temperatures": ", ".join(f"{value:g}" for value in config.get("temperatures", [0])),
            "batches": ", ".join(f"{value:g}" for value in config.get("batches", [1])),
            "trees": "\n".join(config.get("trees", [])),
            "name": config.get("name") or "",
            "device": config.get("device") or "",
        }
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def _numbers(text: str, what: str) -> list[float]:
    try:
        return [float(part) for part in (text or "").replace(";", ",").split(",") if part.strip()]
    except ValueError:
        raise HeadwayError(f"{what} are numbers with commas between, such as 0, 0.7; “{text[:40]}” is not.") from None


@dataclass(frozen=True)
class EvaluateForm:
    """The components; `fields` are those of EvaluateValues, in its order."""

    fields: list[Any]
    by_name: dict[str, Any]
    start: gr.Button
    copy: gr.Button
    yaml: gr.Button
    note: gr.HTML
    busy: gr.HTML
    text: gr.HTML

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]


def build_form(first: EvaluateValues, drafters: list[tuple[str, str]], sets: list[tuple[str, str]]) -> EvaluateForm:
    with gr.Column(elem_id="hw-evaluate-form", elem_classes="hw-panel", min_width=260):
        by_name = _what(first, drafters, sets) | _how(first) | _more(first)
        note = view("evaluate_note", elem_id="hw-evaluate-note")
        busy = busy_note("hw-evaluate-busy")
        start = gr.Button("Start the evaluation", variant="primary", elem_id="hw-evaluate-start")
        with gr.Row(elem_id="hw-evaluate-texts"):
            copy = gr.Button("Copy as command", size="sm", elem_id="hw-evaluate-copy", min_width=100)
            yaml = gr.Button("As YAML", size="sm", elem_id="hw-evaluate-yaml", min_width=80)
        text = view("evaluate_text", elem_id="hw-evaluate-text")
    ordered = [by_name[one.name] for one in fields(EvaluateValues)]
    return EvaluateForm(ordered, by_name, start, copy, yaml, note, busy, text)


def _what(first: EvaluateValues, drafters: list[tuple[str, str]], sets: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "target": gr.Dropdown(
            list(TARGETS), value=first.target, allow_custom_value=True, label="Target", elem_id="hw-evaluate-target",
            info="The model that is served; or type a folder, GGUF or hub id.",
        ),
        "drafters": gr.CheckboxGroup(
            drafters, value=first.drafters, label="Drafters", elem_id="hw-evaluate-drafters",
            info="Plain decoding is always measured beside them, in turns.",
        ),
        "more_drafters": gr.Textbox(
            first.more_drafters, label="Other drafters", lines=1, max_lines=4, placeholder="folder or draft:MODEL",
            elem_id="hw-evaluate-more-drafters", info="Folders of trained heads or draft:MODEL, one a line.",
        ),
        "sets": gr.CheckboxGroup(
            sets, value=first.sets, label="Prompt sets", elem_id="hw-evaluate-sets",
            info="Reported apart, and as a mean over sets.",
        ),
        "more_files": gr.Textbox(
            first.more_files, label="Other prompt files", lines=1, max_lines=4, placeholder="path of a JSONL file",
            elem_id="hw-evaluate-more-files", info="JSONL with turns, ShareGPT or Alpaca, one path a line.",
        ),
    }  # fmt: skip


def _how(first: EvaluateValues) -> dict[str, Any]:
    with gr.Row():
        limit = _number("First prompts", first.limit, "Of each set; empty: all.", precision=0)
        longest = _number("Longest answer", first.max_new_tokens, "In tokens.", precision=0)
    with gr.Row():
        temperatures = gr.Textbox(
            first.temperatures, label="Temperatures", info="With commas.", min_width=110,
            elem_id="hw-evaluate-temperatures",
        )  # fmt: skip
        batches = gr.Textbox(
            first.batches, label="Batches", info="Prompts at once.", min_width=110, elem_id="hw-evaluate-batches"
        )
    return {"limit": limit, "max_new_tokens": longest, "temperatures": temperatures, "batches": batches}


def _more(first: EvaluateValues) -> dict[str, Any]:
    with gr.Accordion("More", open=False, elem_id="hw-evaluate-more", elem_classes="hw-more"):
        trees = gr.Textbox(
            first.trees, label="Trees", lines=1, max_lines=6, placeholder="each drafter's own",
            info="To compare, one a line: chain-4, 3x2x1, medusa-63, eagle2, JSON.",
        )  # fmt: skip
        rule = gr.Radio(
            [("Exact", EXACT), ("Typical (approximate)", TYPICAL)], value=first.rule, label="Acceptance rule",
            info="Exact never changes the output; typical does, for speed.",
        )  # fmt: skip
        with gr.Row():
            epsilon = _number("ε", first.epsilon, "Typical: the highest bound.", step=0.01)
            delta = _number("δ", first.delta, "Typical: share of e to the minus entropy.", step=0.05)
        sampled = gr.Checkbox(
            first.sampled, label="Sampled siblings", info="Draw the guesses instead of taking the likeliest."
        )
        force = gr.Checkbox(
            first.force, label="Heads of another version too", info="They guess worse; their rows are labelled."
        )
        seed = _number("Seed", first.seed, "The same seed gives the same answers.", precision=0)
        name = gr.Textbox(first.name, label="Name", info="Of the evaluation; empty: made of set and target.")
        device = device_field(first.device, "hw-evaluate-device")
    return {"trees": trees, "rule": rule, "epsilon": epsilon, "delta": delta, "sampled": sampled, "force": force,
            "seed": seed, "name": name, "device": device}  # fmt: skip


def _number(label: str, value: Any, info: str, **kwargs: Any) -> gr.Number:
    return gr.Number(value, label=label, info=info, min_width=110, **kwargs)
