"""The pages' own components: gr.HTML with a constant template, drawn by a JavaScript module that mounts once and gets
its data from the page's controller, not from Gradio.

gr.HTML runs template text as code, so no text of a person or a model may ever reach a template; values reach the
modules through `props`, and they write them with textContent. These are no subclasses: Gradio writes a stub file into
the source folder for each subclass when it is imported.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from dashboard.components.assets import base_path

#: Views of the Live page: name of the module in js/views, and the events it triggers. They get the run's controller.
LIVE_VIEWS: dict[str, tuple[str, ...]] = {
    "link": ("ended",),  # value {run, request, error, at}: the run this page shows, or why a request was refused
    "banner": (),
    "chips": ("pick",),  # value [{label, prompt}]; pick {index}
    "command": (),  # value {text}
    "tokens": (),
    "tree": (),
    "strip": (),
    "player": (),
    "figures": (),
    "inspector": (),
    "recent": ("open",),  # open {run}
}

#: Views of all other pages, one a line. They get the page's feed (js/feed.js): status, jobs, streams of single jobs.
VIEWS: dict[str, tuple[str, ...]] = {
    "header": (),  # value {page, pages: [[name, path]]}
    "home": (),
    "run_table": (),
    "race": (),  # value {target, trees, demos: [{label, prompt}]}
    "compare": (),
    "versions": (),
    "learn": (),
    "charts": (),  # value {plotly: address}
    "schema_form": ("edit", "act"),  # see its file; edit {typed, field}, act {action, typed}
    "train_job": ("fork", "text"),  # fork {job}, text {job, form}
    "train_link": (),  # value {job, at}
    "train_plan": ("measure", "measured"),  # measure {typed}, measured {job, typed}
    "train_start": ("begin",),  # value {sentence, button, note}
    "train_text": (),  # value {text}
    "data": (),
    "busy": ("choose",),  # value {device}; choose {device}
    "evaluate": ("quick",),  # value {job, error, at}
    "evaluate_note": (),  # value {text, problem}
    "evaluate_text": (),  # value {text}
    "trees": ("begin", "measure", "keep"),  # see its file; value {plotly, jobs, error, at}
    "export": (),  # value {job, error, at}
    "audit": ("quick",),  # value {job, error, at}
    "doctor": (),  # value {job, error, at}
    "adapters": (),  # value {job, error, at}
    "job_text": (),  # value {text}
    "serve": (),  # value {vllm, job, error, at}
    "sweep": ("quick",),  # value {job, error, at}
    "sweep_form": ("edit", "act"),  # see its file; edit {typed}, act {action, typed}
    "sweep_text": (),  # value {text}
    "jobs": (),  # value {title, kinds: [kind] or null, empty: sentence}
}


def view(name: str, value: Any = None, **kwargs: Any) -> gr.HTML:
    """The view of js/views/<name>.js; `kwargs` go to gr.HTML. Listen with `component.<event>(...)`."""
    controller = "live" if name in LIVE_VIEWS else "feed"
    # Gradio finds the events of a component by their quoted names in this text.
    events = ", ".join(f'"{event}"' for event in (LIVE_VIEWS | VIEWS)[name])
    load = (
        f'import("{base_path()}/js/mount.js").then((headway) => headway.mount("{name}", "{controller}", element, '
        f"{{ props, watch, trigger, server, events: [{events}] }}));"
    )
    return gr.HTML(value, html_template="<div></div>", js_on_load=load, apply_default_css=False, **kwargs)
