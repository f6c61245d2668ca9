"""One small class a view. Each mounts its JavaScript module once and gets its data from the page's controller, not from Gradio.

Templates are constant: gr.HTML runs template text as code, so no text of a person or a model may ever reach one. Values reach
the modules through `props`, and they write them with textContent.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gradio as gr

from dashboard.components.assets import base_path

from gradio.events import Dependency

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
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class RunLink(View):
    """value: {run, request, error}: the run this page shows, the request behind it, or why a request was refused."""

    view = "link"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Header(View):
    view = "header"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Banner(View):
    view = "banner"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Chips(View):
    """value: [{label, prompt}]; triggers pick {index}."""

    view = "chips"
    triggers = ("pick",)
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Command(View):
    """value: {text}."""

    view = "command"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class TokenStream(View):
    view = "tokens"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class TreeView(View):
    view = "tree"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Strip(View):
    view = "strip"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Player(View):
    view = "player"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Figures(View):
    view = "figures"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Inspector(View):
    view = "inspector"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component


class Recent(View):
    """Triggers open {run}."""

    view = "recent"
    triggers = ("open",)
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component