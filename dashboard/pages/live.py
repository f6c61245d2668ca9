"""The Live page: type a prompt, watch the draft tree of every step. Lays out and wires; meaning is in presenters and
`runs`.

Python only starts and finds runs; what happens in them reaches the views as server-sent events. All events here are
light, so none of them queues: a queue would also hold one of the six connections a browser has for this host.
"""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from dashboard.components.views import view
from dashboard.pages.frame import LIGHT, on_load
from dashboard.pages.live_form import LiveForm, build_form
from dashboard.pages.live_handlers import Handlers
from dashboard.presenters.form import FormValues
from dashboard.presenters.prompts import demo_prompts
from dashboard.runs import Runs
from dashboard.services import Services

STOP_JS = "() => { window.headway.live.stop(); }"


def live_page(services: Services, runs: Runs) -> None:
    """Builds the page inside its route."""
    demos = demo_prompts(services.settings.demo_prompts)
    first = FormValues(prompt=demos[0]["prompt"], target=services.settings.default_target)
    link = view("link", elem_id="hw-link")
    with gr.Row(elem_id="hw-main"):
        form = build_form(first, demos)
        stage = build_stage()
    wire(form, stage, link, Handlers(runs, demos, first))


@dataclass(frozen=True)
class Stage:
    """The components right of the form that have events."""

    reply: gr.Textbox
    send: gr.Button
    new_chat: gr.Button
    recent: gr.HTML


def build_stage() -> Stage:
    with gr.Column(elem_id="hw-stage"):
        view("banner", elem_id="hw-banner")
        view("tokens", elem_id="hw-tokens")
        with gr.Row(elem_id="hw-reply"):
            reply = gr.Textbox(
                show_label=False,
                placeholder="Reply, to continue the chat",
                lines=1,
                container=False,
                elem_id="hw-reply-text",
            )
            send = gr.Button("Send", scale=0, min_width=72, elem_id="hw-send")
            new_chat = gr.Button("New chat", scale=0, min_width=92, elem_id="hw-new-chat")
        view("figures", elem_id="hw-figures")
        with gr.Column(elem_id="hw-steps"):
            view("player", elem_id="hw-player")
            view("strip", elem_id="hw-strip")
        view("tree", elem_id="hw-tree")
        view("inspector", elem_id="hw-inspector")
        recent = view("recent", elem_id="hw-recent")
    return Stage(reply, send, new_chat, recent)


def wire(form: LiveForm, stage: Stage, link: gr.HTML, handlers: Handlers) -> None:
    """Which event calls what. Most handlers take the form's values and the link."""
    inputs = [*form.fields, link]
    prompt, tree, drafter = form["prompt"], form["tree"], form["drafter"]
    gr.on([form.run.click, prompt.submit], handlers.run, inputs, link, **LIGHT)
    form.stop.click(None, js=STOP_JS, **LIGHT)
    after_reply = [link, prompt, stage.reply]
    gr.on([stage.send.click, stage.reply.submit], handlers.reply, [*inputs, stage.reply], after_reply, **LIGHT)
    stage.new_chat.click(handlers.new_chat, None, after_reply, **LIGHT)
    # `input` and `release` are a person's doing; `change` would also fire when a run is opened.
    changes = [tree.input, form["max_depth"].input, form["temperature"].release, form["rule"].input, drafter.input]
    gr.on(changes, handlers.run_again, [*inputs, form.auto], link, trigger_mode="always_last", **LIGHT)
    form.copy.click(handlers.command, inputs, form.command, **LIGHT)
    form.yaml.click(handlers.yaml, inputs, form.command, **LIGHT)
    form.chips.pick(handlers.pick, None, prompt, **LIGHT)
    # What drafting costs is known better after each run, and what was used is worth offering again.
    form["target"].input(handlers.choices, form["target"], drafter, **LIGHT)
    link.ended(handlers.choices, form["target"], drafter, **LIGHT)
    stage.recent.open(handlers.open, None, inputs, **LIGHT)
    on_load(handlers.load, None, inputs)
