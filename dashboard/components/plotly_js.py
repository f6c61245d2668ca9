"""The chart library as plotly.py ships it, served from here: works without a network, and fits the installed plotly.

Its address holds the package's version, so browsers may keep it for ever. Knows no chart.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from backend.errors import HeadwayError

FILE = Path("package_data") / "plotly.min.js"


@lru_cache(maxsize=1)
def plotly_file() -> Path:
    """Raises HeadwayError when the installed plotly has no such file. Imports no plotly, which would take a second."""
    found = importlib.util.find_spec("plotly")
    places = (found.submodule_search_locations if found else None) or []
    for place in places:
        if (Path(place) / FILE).is_file():
            return Path(place) / FILE
    raise HeadwayError("The package plotly is damaged: its plotly.min.js is missing; install the requirements again.")


@lru_cache(maxsize=1)
def plotly_path() -> str:
    """Where the browser finds it."""
    return f"/headway/plotly/{importlib.metadata.version('plotly')}.min.js"


async def _serve(request: Request) -> Response:
    if request.url.path != plotly_path():
        return PlainTextResponse("no such file", 404)
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return FileResponse(plotly_file(), media_type="text/javascript", headers=headers)


def plotly_route() -> Route:
    return Route("/headway/plotly/{name}", _serve)
