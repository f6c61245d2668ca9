"""Headway's own HTTP routes beside Gradio: events, run list, status, cancel, static files. Thin: all meaning is in
`runs` and `jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.glossary import glossary
from dashboard.adapting import adapter_routes
from dashboard.answers import answer
from dashboard.auditing import audit_routes
from dashboard.compare_routes import compare_routes
from dashboard.comparing import Comparisons
from dashboard.components.assets import assets, base_path
from dashboard.components.plotly_js import plotly_route
from dashboard.data_routes import data_routes
from dashboard.datasets import Datasets
from dashboard.diagnosing import doctor_routes
from dashboard.feed import page_events
from dashboard.home import home
from dashboard.job_routes import job_routes
from dashboard.jobs import Jobs
from dashboard.learn_routes import learn_routes
from dashboard.learn_traces import Traces
from dashboard.pages.evaluate_tables import Tables, evaluation_routes
from dashboard.pages.sweep_tables import Sweeps, sweep_routes
from dashboard.presenters.guide import explained
from dashboard.pulse import Pulse
from dashboard.races import Races, race_routes
from dashboard.run_table import RunTable
from dashboard.run_table_routes import run_table_routes
from dashboard.runs import Runs
from dashboard.services import Services
from dashboard.serving import Serving, serving_routes
from dashboard.streams import run_events
from dashboard.tasks import Tasks
from dashboard.trees import Trees, tree_routes
from dashboard.versions import Versions, version_routes
from dashboard.watching import watch_routes

MEDIA_TYPES = {"js": "text/javascript", "css": "text/css"}


def headway_routes(services: Services, runs: Runs, jobs: Jobs, pages: Sequence[str]) -> list[Route]:
    """`pages` are the addresses of the pages that exist."""

    async def front(request: Request) -> Response:
        return await answer(lambda: home(services, jobs, pages))

    async def explaining(request: Request) -> Response:
        return await answer(lambda: explained(glossary()))

    async def status(request: Request) -> Response:
        return await answer(runs.status)

    async def recent(request: Request) -> Response:
        return await answer(runs.recent)

    async def cancel(request: Request) -> Response:
        def act() -> dict[str, Any]:
            runs.cancel(request.path_params["run_id"])
            return {}

        return await answer(act)

    async def share(request: Request) -> Response:
        def act() -> dict[str, Any]:
            runs.share(request.path_params["run_id"])
            return {}

        return await answer(act)

    heartbeat_s = services.settings.heartbeat_s
    tables = Tables(jobs)
    return [
        Route("/headway/status", status),
        Route("/headway/events", page_events(services.engine, jobs, Pulse(services, runs, jobs), heartbeat_s)),
        Route("/headway/home", front),
        Route("/headway/glossary", explaining),
        Route("/headway/runs", recent),
        Route("/headway/runs/{run_id}/events", run_events(services.engine, heartbeat_s)),
        Route("/headway/runs/{run_id}/cancel", cancel, methods=["POST"]),
        Route("/headway/runs/{run_id}/share", share, methods=["POST"]),
        *race_routes(Races(services)),
        *evaluation_routes(tables),
        *tree_routes(Trees(jobs)),
        *sweep_routes(Sweeps(jobs)),
        *audit_routes(jobs),
        *doctor_routes(jobs),
        *adapter_routes(jobs),
        *serving_routes(Serving(jobs)),
        *job_routes(jobs, heartbeat_s),
        *data_routes(Datasets(services, jobs), Tasks()),
        *learn_routes(Tasks(threads=1), jobs, tables, Traces(services)),
        plotly_route(),
        *run_table_routes(RunTable(services)),
        *compare_routes(Comparisons(services, jobs)),
        *version_routes(Versions(services), Tasks(threads=1)),
        *watch_routes(services),
        Route(base_path() + "/{name:path}", static),
    ]


async def static(request: Request) -> Response:
    """JavaScript and CSS; their address changes with their content."""
    name = request.path_params["name"]
    content = assets().get(name)
    if content is None:
        return PlainTextResponse("no such file", 404)
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(content, media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)


class OldLinks:
    """Leads links from when the Live page was the front page to where it is now."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/" and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            if "run" in parse_qs(query):
                await RedirectResponse(f"/live?{query}", 307)(scope, receive, send)
                return
        await self.app(scope, receive, send)
