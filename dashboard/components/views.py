"""One small class a view. Each mounts its JavaScript module once and gets its data from the page's controller, not from Gradio.

Templates are constant: gr.HTML runs template text as code, so no text of a person or a model may ever reach one. Values reach
the modules through `props`, and they write them with textContent.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gradio as gr

from dashboard.components.assets import base_path


class View(gr.HTML):
    """A component drawn by `js/views/<view>.js`. `triggers` are the names the module may trigger."""

    view: ClassVar[str] = ""
    triggers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, value: Any = None, **kwargs: Any) -> None:
        # Gradio finds the events of a component by their quoted names in this text.
        names = ", ".join(f'"{name}"' for name in self.triggers)
        load = (
            f'import("{base_path()}/js/mount.js").then((headway) => '
            f'headway.mount("{self.view}", element, {{ props, watch, trigger, events: [{names}] }}));'
        )
        super().__init__(
            value=value, html_template="<div></div>", css_template="", js_on_load=load, apply_default_css=False, **kwargs
        )

    def get_block_name(self) -> str:
        return "html"

    def preprocess(self, payload: Any) -> Any:
        return payload

    def postprocess(self, value: Any) -> Any:
        return value

    def api_info(self) -> dict[str, Any]:
        return {"type": "object", "description": "the state of a view"}


class RunLink(View):
    """value: {run, request, error}: the run this page shows, the request behind it, or why a request was refused."""

    view = "link"


class Header(View):
    view = "header"


class Banner(View):
    view = "banner"


class Chips(View):
    """value: [{label, prompt}]; triggers pick {index}."""

    view = "chips"
    triggers = ("pick",)


class Command(View):
    """value: {text}."""

    view = "command"


class TokenStream(View):
    view = "tokens"


class TreeView(View):
    view = "tree"


class Strip(View):
    view = "strip"


class Player(View):
    view = "player"


class Figures(View):
    view = "figures"


class Inspector(View):
    view = "inspector"


class Recent(View):
    """Triggers open {run}."""

    view = "recent"
    triggers = ("open",)
