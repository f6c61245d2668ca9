"""HTTP routes of the Runs page. Thin: all meaning is in `run_table`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent, download
from dashboard.presenters.run_table import table_csv
from dashboard.run_table import RunTable, Wanted

MAX_CHANGED = 10_000


def run_table_routes(table: RunTable) -> list[Route]:
    async def page(request: Request) -> Response:
        return await answer(lambda: table.page(Wanted.from_query(request.query_params)))

    async def export(request: Request) -> Response:
        form, query = request.path_params["form"], request.query_params
        return await answer(lambda: _export(table, form, query))

    async def compare(request: Request) -> Response:
        return await answer(lambda: table.compare(request.query_params.getlist("run")))

    async def usage(request: Request) -> Response:
        return await answer(table.usage)

    async def details(request: Request) -> Response:
        return await answer(lambda: table.details(request.path_params["run_id"]))

    async def act(request: Request) -> Response:
        name = request.path_params["action"]
        return await answer_sent(request, lambda values: _act(table, name, values))

    return [
        Route("/headway/table", page),
        Route("/headway/table.{form}", export),
        Route("/headway/table/compare", compare),
        Route("/headway/table/usage", usage),
        Route("/headway/table/runs/{run_id}", details),
        Route("/headway/table/{action}", act, methods=["POST"]),
    ]


def _export(table: RunTable, form: str, query: Any) -> Response:
    rows = table.rows(Wanted.from_query(query))
    if form == "csv":
        return download(table_csv(rows), "runs.csv", "text/csv")
    if form == "json":
        return download(json.dumps(rows, ensure_ascii=False), "runs.json", "application/json")
    raise HeadwayError("Runs come as table.csv or table.json.")


def _act(table: RunTable, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """One change a person asked for."""
    if name == "trash":
        return table.trash(_texts(values, "ids"))
    if name == "restore":
        return table.restore(_texts(values, "ids"))
    if name == "tag":
        return table.tag(_texts(values, "ids"), _texts(values, "add"), _texts(values, "remove"))
    if name == "note":
        return table.note(str(values.get("id")), str(values.get("text") or ""))
    if name == "prune":
        return table.prune(_whole(values, "keep_runs"), _whole(values, "max_bytes"))
    if name == "purge":
        return table.purge()
    raise HeadwayError(f"The table of runs knows no “{name[:40]}”.")


def _texts(values: dict[str, Any], name: str) -> Sequence[str]:
    found = values.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found) or len(found) > MAX_CHANGED:
        raise HeadwayError(f"“{name}” has to be a list of texts; nothing was changed.")
    return [one.strip() for one in found if one.strip()]


def _whole(values: dict[str, Any], name: str) -> int | None:
    number = values.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise HeadwayError("Give a whole number, 0 or more; nothing was changed.")
    return number
