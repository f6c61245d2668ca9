"""The left side of the Live page: prompt, models and knobs, each with one line of help. Wires nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from dashboard.components.views import view
from dashboard.presenters.form import ALL_LEVELS, CHAT, EXACT, OWN_TREE, RAW, TYPICAL, FormValues
from dashboard.presenters.targets import TARGETS

TREES = (OWN_TREE, "chain-2", "chain-4", "2x2x1", "4x2x1", "medusa-63", "eagle2")
DEPTHS = (
    ("All levels", ALL_LEVELS),
    ("0: draft nothing", "0"),
    *((f"{levels} level{'s' if levels > 1 else ''}", str(levels)) for levels in range(1, 9)),
)
DRAFTERS = (
    ("Medusa heads (built in)", "builtin-medusa"),
    ("Prompt lookup (n-gram)", "ngram"),
    ("None: plain decoding", "none"),
)


@dataclass(frozen=True)
class LiveForm:
    """The components; `fields` are those of FormValues, in its order."""

    fields: list[Any]
    by_name: dict[str, Any]
    run: gr.Button
    stop: gr.Button
    auto: gr.Checkbox
    chips: gr.HTML
    copy: gr.Button
    yaml: gr.Button
    command: gr.HTML

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]


def build_form(first: FormValues, demos: list[dict[str, str]]) -> LiveForm:
    with gr.Column(elem_id="hw-prompt", elem_classes="hw-panel", min_width=260):
        prompt = gr.Textbox(first.prompt, label="Prompt", lines=3, max_lines=8, elem_id="hw-prompt-text")
        chips = view("chips", demos)
        with gr.Row(elem_id="hw-buttons"):
            run = gr.Button("Run", variant="primary", elem_id="hw-run", min_width=90)
            stop = gr.Button("Stop", variant="stop", elem_id="hw-stop", min_width=90)
        auto = gr.Checkbox(True, label="Run again when a knob changes", elem_id="hw-auto", container=False)
    with gr.Column(elem_id="hw-knobs", elem_classes="hw-panel", min_width=260):
        by_name = {"prompt": prompt} | _models(first) | _draft(first) | _sampling(first) | _more(first)
        with gr.Row(elem_id="hw-live-texts", elem_classes="hw-texts"):
            copy = gr.Button("Copy as command", size="sm", elem_id="hw-copy", min_width=100)
            yaml = gr.Button("As YAML", size="sm", elem_id="hw-live-yaml", min_width=80)
        command = view("command")
    ordered = [by_name[field.name] for field in fields(FormValues)]
    return LiveForm(ordered, by_name, run, stop, auto, chips, copy, yaml, command)


def _models(first: FormValues) -> dict[str, Any]:
    return {
        "target": gr.Dropdown(
            list(TARGETS), value=first.target, allow_custom_value=True, label="Target", elem_id="hw-target",
            info="The model that is served; or type a folder, GGUF or hub id.",
        ),
        "drafter": gr.Dropdown(
            list(DRAFTERS), value=first.drafter, allow_custom_value=True, label="Drafter", elem_id="hw-drafter",
            info="Its cost is in plain steps. Or a folder, draft:MODEL.",
        ),
    }  # fmt: skip


def _draft(first: FormValues) -> dict[str, Any]:
    return {
        "tree": gr.Dropdown(
            list(TREES), value=first.tree, allow_custom_value=True, label="Tree", elem_id="hw-tree-knob",
            info="chain-4, 4x2x1 with branches, eagle2 (it grows), JSON paths.",
        ),
        "max_depth": gr.Dropdown(
            list(DEPTHS), value=first.max_depth, allow_custom_value=True, label="Depth", elem_id="hw-depth",
            info="Levels of the tree to keep.",
        ),
    }  # fmt: skip


def _sampling(first: FormValues) -> dict[str, Any]:
    return {
        "temperature": gr.Slider(
            0, 2, first.temperature, step=0.05, label="Temperature", elem_id="hw-temperature", buttons=[],
            info="0: always the likeliest token.",
        ),
        "rule": gr.Radio(
            [("Exact", EXACT), ("Typical (approximate)", TYPICAL)],
            value=first.rule, label="Acceptance rule", elem_id="hw-rule",
            info="Exact never changes the output; typical does, for speed.",
        ),
        "max_new_tokens": gr.Slider(
            8, 1024, first.max_new_tokens, step=8, label="Longest answer", elem_id="hw-longest", buttons=[],
            info="In tokens.",
        ),
    }  # fmt: skip


def _more(first: FormValues) -> dict[str, Any]:
    with gr.Accordion("More", open=False, elem_id="hw-more"):
        system = gr.Textbox(
            first.system, label="System prompt", lines=2, info="Instructions before the chat; empty: none."
        )
        mode = gr.Radio([("Chat", CHAT), ("Raw text", RAW)], value=first.mode, label="Prompt is",
                        info="Chat uses the target's template; raw text is continued as it stands.")  # fmt: skip
        with gr.Row():
            top_k = _number("Top-k", first.top_k, "Keep the k likeliest; 0: all.", precision=0)
            top_p = _number("Top-p", first.top_p, "Keep this share of probability.", step=0.05)
        with gr.Row():
            min_p = _number("Min-p", first.min_p, "Drop what is below this share of the best.", step=0.01)
            penalty = _number(
                "Repetition penalty", first.repetition_penalty, "Above 1 avoids what was said.", step=0.05
            )
        with gr.Row():
            epsilon = _number("ε", first.epsilon, "Typical: the highest bound.", step=0.01)
            delta = _number("δ", first.delta, "Typical: share of e to the minus entropy.", step=0.05)
        seed = _number("Seed", first.seed, "The same seed gives the same answer.", precision=0)
        stop = gr.Textbox(
            first.stop, label="Stop strings", lines=1, max_lines=4, info=r"One a line; \n stands for a line break."
        )
        schema = gr.Textbox(
            first.json_schema,
            label="JSON schema",
            lines=2,
            max_lines=12,
            elem_id="hw-schema",
            info="The answer has to follow it; empty: any text.",
        )
        banned = gr.Textbox(first.banned, label="Banned tokens", info="Token ids that may never come, such as 13, 198.")
        sampled = gr.Checkbox(
            first.sampled, label="Sampled siblings", info="Draw the guesses instead of taking the likeliest."
        )
        force = gr.Checkbox(
            first.force, label="Force heads of another version", info="They guess worse; the output stays right."
        )
    return {
        "system": system, "mode": mode, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": penalty,
        "epsilon": epsilon, "delta": delta, "seed": seed, "stop": stop, "json_schema": schema, "banned": banned,
        "sampled": sampled, "force": force,
    }  # fmt: skip


def _number(label: str, value: Any, info: str, **kwargs: Any) -> gr.Number:
    return gr.Number(value, label=label, info=info, min_width=110, **kwargs)
