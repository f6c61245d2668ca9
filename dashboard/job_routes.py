"""HTTP routes about jobs: list, look up, act, download. Thin: all meaning is in `jobs`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent, download
from dashboard.feed import job_events
from dashboard.jobs import Jobs
from dashboard.presenters.jobs import job_details, job_row, metrics_csv, metrics_json
from storage.job_records import JobStatus

MAX_LIST = 200
MAX_LOG_BYTES = 64 << 20


def job_routes(jobs: Jobs, heartbeat_s: float) -> list[Route]:
    async def listed(request: Request) -> Response:
        query = request.query_params

        def act() -> list[dict[str, Any]]:
            found = jobs.list(
                kinds=query.getlist("kind") or None,
                statuses=_statuses(query.getlist("status")),
                limit=min(_whole(query.get("limit"), 50), MAX_LIST),
                offset=_whole(query.get("offset"), 0),
            )
            return [job_row(job) for job in found]

        return await answer(act)

    async def one(request: Request) -> Response:
        return await answer(lambda: job_details(jobs.get(request.path_params["job_id"])))

    async def act(request: Request) -> Response:
        job_id, name = request.path_params["job_id"], request.path_params["action"]
        return await answer_sent(request, lambda values: _act(jobs, job_id, name, values))

    async def log(request: Request) -> Response:
        job_id = request.path_params["job_id"]
        return await answer(lambda: download(jobs.log_tail(job_id, MAX_LOG_BYTES), f"{job_id}.log", "text/plain"))

    async def weights(request: Request) -> Response:
        return await answer(lambda: {"steps": list(jobs.kept_steps(request.path_params["job_id"]))})

    async def metrics(request: Request) -> Response:
        job_id, form = request.path_params["job_id"], request.path_params["form"]
        return await answer(lambda: _metrics(jobs, job_id, form))

    base = "/headway/jobs/{job_id}"
    return [
        Route("/headway/jobs", listed),
        Route(base, one),
        Route(base + "/events", job_events(jobs, heartbeat_s)),
        Route(base + "/log", log),
        Route(base + "/weights", weights),
        Route(base + "/metrics.{form}", metrics),
        Route(base + "/{action}", act, methods=["POST"]),
    ]


def _act(jobs: Jobs, job_id: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """One action a person asked for; answers with the job as it is then."""
    if name == "delete":
        jobs.delete(job_id)
        return {}
    if name == "annotate":
        jobs.annotate(job_id, **{key: values[key] for key in ("name", "tags", "notes") if key in values})
    elif name == "move":
        jobs.move(job_id, values.get("before"))
    elif name == "resume":
        jobs.resume(job_id, front=bool(values.get("front")))
    elif name == "stop":
        jobs.stop(job_id)
    elif name == "pause":
        jobs.pause(job_id)
    else:
        raise HeadwayError(f"A job can't be asked to “{name[:40]}”; it can stop, pause, resume, move or be deleted.")
    return job_row(jobs.get(job_id))


def _metrics(jobs: Jobs, job_id: str, form: str) -> Response:
    jobs.get(job_id)  # an unknown job is said so, not an empty file
    rows = jobs.metrics(job_id)
    if form == "csv":
        return download(metrics_csv(rows), f"{job_id}-metrics.csv", "text/csv")
    if form == "json":
        return download(json.dumps(metrics_json(rows)), f"{job_id}-metrics.json", "application/json")
    raise HeadwayError("Metrics come as metrics.csv or metrics.json.")


def _statuses(names: Sequence[str]) -> list[JobStatus] | None:
    known = {status: status for status in get_args(JobStatus)}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise HeadwayError(f"No job is ever “{wrong[0][:40]}”; a status is one of {', '.join(known)}.")
    return [known[name] for name in names] or None


def _whole(text: str | None, default: int) -> int:
    return int(text[:9]) if text and text.isascii() and text.isdigit() else default
