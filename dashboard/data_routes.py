"""HTTP routes of the Data page. Thin: all meaning is in `datasets`. Long work is a task that the page asks after."""

from __future__ import annotations

import math
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent
from dashboard.datasets import OWN_LICENCE, OWN_NAME, OWN_PROMPTS, Datasets, typed_path
from dashboard.tasks import Progress, Tasks
from dashboard.uploads import MAX_UPLOAD_BYTES, Upload, too_large


def data_routes(datasets: Datasets, tasks: Tasks) -> list[Route]:
    async def listed(request: Request) -> Response:
        def act() -> dict[str, Any]:
            return {"sets": datasets.listed(), "max_upload": MAX_UPLOAD_BYTES, "own": OWN_PROMPTS.is_file()}

        return await answer(act)

    async def one(request: Request) -> Response:
        return await answer(lambda: datasets.shown(request.path_params["id"]))

    async def bring(request: Request) -> Response:
        def act(values: dict[str, Any]) -> dict[str, Any]:
            def work(progress: Progress) -> dict[str, Any]:
                if values.get("own") is True:
                    return datasets.bring(OWN_PROMPTS, OWN_LICENCE, OWN_NAME, progress)
                path = typed_path(_text(values, "path"))
                return datasets.bring(path, _text(values, "licence"), _text(values, "name"), progress)

            return {"task": tasks.start(work)}

        return await answer_sent(request, act)

    async def upload(request: Request) -> Response:
        try:
            path = await _received(request, datasets)
        except ClientDisconnect:
            return Response(status_code=400)
        except HeadwayError as error:
            return JSONResponse({"error": str(error)}, 400)
        query = request.query_params
        name, licence = query.get("name", ""), query.get("licence", "")
        shown = name.rpartition(".")[0] or name
        return JSONResponse({"task": tasks.start(lambda progress: datasets.bring(path, licence, shown, progress))})

    async def change(request: Request) -> Response:
        dataset_id, action = request.path_params["id"], request.path_params["action"]
        return await answer_sent(request, lambda values: _changed(datasets, tasks, dataset_id, action, values))

    async def mask(request: Request) -> Response:
        query = request.query_params
        row = query.get("row", "1")
        number = int(row[:9]) if row.isascii() and row.isdigit() else 0

        def act() -> dict[str, Any]:
            try:
                return datasets.mask(request.path_params["id"], query.get("target", ""), number)
            except HeadwayError as error:  # a row that this target cannot show is an ordinary answer
                return {"error": str(error)}

        return await answer(act)

    async def task(request: Request) -> Response:
        return await answer(lambda: tasks.get(request.path_params["id"]).to_json())

    async def cancel(request: Request) -> Response:
        def act() -> dict[str, Any]:
            tasks.cancel(request.path_params["id"])
            return {}

        return await answer(act)

    async def form(request: Request) -> Response:
        return await answer(datasets.form)

    async def distill(request: Request) -> Response:
        def act(values: dict[str, Any]) -> dict[str, Any]:
            typed = values.get("typed")
            return datasets.distill(_text(values, "action"), typed if isinstance(typed, dict) else {})

        return await answer_sent(request, act)

    base = "/headway/data"
    return [
        Route(f"{base}/sets", listed),
        Route(f"{base}/bring", bring, methods=["POST"]),
        Route(f"{base}/upload", upload, methods=["POST"]),
        Route(f"{base}/distill", form),
        Route(f"{base}/distill", distill, methods=["POST"]),
        Route(f"{base}/tasks/{{id}}", task),
        Route(f"{base}/tasks/{{id}}/cancel", cancel, methods=["POST"]),
        Route(f"{base}/sets/{{id}}", one),
        Route(f"{base}/sets/{{id}}/mask", mask),
        Route(f"{base}/sets/{{id}}/{{action}}", change, methods=["POST"]),
    ]


def _changed(datasets: Datasets, tasks: Tasks, dataset_id: str, action: str, values: dict[str, Any]) -> dict[str, Any]:
    if action == "annotate":
        return datasets.annotate(dataset_id, values)
    if action == "forget":
        datasets.forget(dataset_id)
        return {}
    if action == "split":
        fraction = values.get("fraction")
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not math.isfinite(fraction):
            raise HeadwayError("The held-out part has to be a number.")
        return {"task": tasks.start(lambda progress: datasets.split(dataset_id, float(fraction), progress))}
    if action == "leaks":
        others, typed = values.get("others"), _text(values, "paths")
        chosen = [str(one) for one in others] if isinstance(others, list) else []
        return {"task": tasks.start(lambda progress: datasets.leaks(dataset_id, chosen, typed, progress))}
    raise HeadwayError(f"A data set can't be asked to “{action[:40]}”.")


async def _received(request: Request, datasets: Datasets) -> Any:
    """The uploaded file's path. Raises HeadwayError; nothing of a refused or broken upload stays."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_UPLOAD_BYTES:
        raise HeadwayError(too_large())
    with Upload(datasets.places.home / "datasets", request.query_params.get("name", "")) as kept:
        async for piece in request.stream():
            if piece:
                await run_in_threadpool(kept.write, piece)
        return await run_in_threadpool(kept.finish)


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""
