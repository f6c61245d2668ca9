"""Headway's own HTTP routes beside Gradio: events, run list, status, cancel, static files. Thin: all meaning is in
`runs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dashboard.components.assets import assets, base_path
from dashboard.runs import PERSONS_ERRORS, Runs, one_sentence
from dashboard.services import Services
from dashboard.streams import run_events

MEDIA_TYPES = {"js": "text/javascript", "css": "text/css"}


def headway_routes(services: Services, runs: Runs) -> list[Route]:
    async def status(request: Request) -> Response:
        return await _answer(runs.status)

    async def recent(request: Request) -> Response:
        return await _answer(runs.recent)

    async def cancel(request: Request) -> Response:
        def act() -> dict[str, Any]:
            runs.cancel(request.path_params["run_id"])
            return {}

        return await _answer(act)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        content = assets().get(name)
        if content is None:
            return PlainTextResponse("no such file", 404)
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(content, media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)

    return [
        Route("/headway/status", status),
        Route("/headway/runs", recent),
        Route("/headway/runs/{run_id}/events", run_events(services.engine, services.settings.heartbeat_s)),
        Route("/headway/runs/{run_id}/cancel", cancel, methods=["POST"]),
        Route(base_path() + "/{name:path}", static),
    ]


async def _answer(act: Callable[[], Any]) -> Response:
    """Runs `act` beside the event loop; errors become one sentence."""
    try:
        return JSONResponse(await run_in_threadpool(act))
    except Exception as error:
        return JSONResponse({"error": one_sentence(error)}, 400 if isinstance(error, PERSONS_ERRORS) else 500)
