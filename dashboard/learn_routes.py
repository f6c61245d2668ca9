"""HTTP routes of the Learn page. Thin: all meaning is in `learn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent
from dashboard.guide import guided
from dashboard.jobs import Jobs
from dashboard.learn import Typical, asked_of, figure, toy
from dashboard.learn_traces import Traces
from dashboard.pages.evaluate_tables import Tables
from dashboard.tasks import Tasks

MAX_SEED = 1 << 31


def learn_routes(tasks: Tasks, jobs: Jobs, tables: Tables, traces: Traces) -> list[Route]:
    async def shown(request: Request) -> Response:
        name, query = request.path_params["name"], request.query_params.multi_items()
        return await answer(lambda: _shown(name, query))

    async def guiding(request: Request) -> Response:
        return await answer(lambda: guided(jobs, tables))

    async def listed(request: Request) -> Response:
        return await answer(lambda: {"runs": traces.runs()})

    async def pointed(request: Request) -> Response:
        run_id, query = request.path_params["id"], dict(request.query_params)
        return await answer(lambda: traces.typical(run_id, asked_of(Typical, query)))

    async def begin(request: Request) -> Response:
        return await answer_sent(request, lambda values: _begin(tasks, values))

    async def state(request: Request) -> Response:
        return await answer(lambda: tasks.get(request.path_params["id"]).to_json())

    return [
        Route("/headway/learn/toy", begin, methods=["POST"]),
        Route("/headway/learn/toy/{id}", state),
        Route("/headway/learn/guide", guiding),
        Route("/headway/learn/runs", listed),
        Route("/headway/learn/runs/{id}", pointed),
        Route("/headway/learn/{name}", shown),
    ]


def _shown(name: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A half typed number is no failed request: browsers write those into their log."""
    try:
        return figure(name, query)
    except HeadwayError as error:
        return {"problem": str(error)}


def _begin(tasks: Tasks, values: dict[str, Any]) -> dict[str, str]:
    seed = values.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < MAX_SEED:
        raise HeadwayError("A seed is a whole number from 0.")
    return {"task": tasks.start(lambda progress: toy(seed))}
