"""HTTP routes of the Compare page. Thin: all meaning is in `comparing`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent, download
from dashboard.comparing import Comparisons, Wanted
from dashboard.presenters.comparing import comparison_csv
from dashboard.report import comparison_report


def compare_routes(comparisons: Comparisons) -> list[Route]:
    async def shown(request: Request) -> Response:
        return await answer(lambda: comparisons.view(Wanted.from_query(request.query_params)))

    async def taken(request: Request) -> Response:
        form, query = request.path_params["form"], request.query_params
        return await answer(lambda: _file(comparisons, form, Wanted.from_query(query)))

    async def choices(request: Request) -> Response:
        return await answer(comparisons.choices)

    async def prompt(request: Request) -> Response:
        query = request.query_params
        return await answer(lambda: comparisons.prompt(Wanted.from_query(query), query.get("asked") or ""))

    async def sides(request: Request) -> Response:
        return await answer_sent(request, lambda values: comparisons.sides_of(_ids(values)))

    base = "/headway/compare"
    return [
        Route(base, shown),
        Route(base + ".{form}", taken),
        Route(base + "/choices", choices),
        Route(base + "/prompt", prompt),
        Route(base + "/sides", sides, methods=["POST"]),
    ]


def _ids(values: dict[str, Any]) -> list[str]:
    ids = values.get("ids")
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise HeadwayError("“ids” has to be a list of texts.")
    return ids


def _file(comparisons: Comparisons, form: str, wanted: Wanted) -> Response:
    view = comparisons.view(wanted)
    if form == "csv":
        return download(comparison_csv(view), "comparison.csv", "text/csv")
    if form == "json":
        return download(json.dumps(view, ensure_ascii=False), "comparison.json", "application/json")
    if form == "html":
        return download(comparison_report(view, datetime.now(UTC)), "comparison.html", "text/html")
    raise HeadwayError("A comparison comes as .csv, .json or .html.")
