"""What every page shares: the header with its navigation, how light events are wired, what happens at loading.

Knows no page's content. A page is a function that builds inside its route; the list of them is in `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradio.context import Context

from dashboard.components.views import view

#: for every event of a page: nothing queues, since a queue holds one of the six connections a browser has for this host
LIGHT: dict[str, Any] = {
    "queue": False,
    "concurrency_limit": 20,
    "concurrency_id": "light",
    "show_progress": "hidden",
    "api_visibility": "private",
}

Pages = Sequence[tuple[str, str]]


def page_header(path: str, pages: Pages) -> None:
    """Name, navigation, who has the device, light or dark. `pages` are (name, path) in the order shown."""
    value = {"page": path, "pages": [list(page) for page in pages]}
    view("header", value, elem_id="hw-header")


def on_load(function: Callable[..., Any], inputs: Any = None, outputs: Any = None) -> None:
    """Calls `function` when the page that is being built is loaded; it may take a gr.Request for the address."""
    page = Context.root_block
    assert page is not None, "on_load belongs inside a page"
    page.load(function, inputs, outputs, **LIGHT)
