"""What the Adapters page asks about a comparison: what is said of each adapter, another mix, its file. Thin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, answer_sent, download
from dashboard.jobs import Jobs
from dashboard.presenters.adapters import adapters_view, mix_view
from dashboard.presenters.jobs import job_details

KIND = "adapters"


def adapter_routes(jobs: Jobs) -> list[Route]:
    """`/headway/adapters/ID`: what the page shows; `/mix`: another mix of traffic; `/report.json`: what was written."""

    async def shown(request: Request) -> Response:
        return await answer(lambda: view(jobs, request.path_params["job_id"]))

    async def mixed(request: Request) -> Response:
        return await answer_sent(request, lambda values: mix(jobs, request.path_params["job_id"], values))

    async def taken(request: Request) -> Response:
        return await answer(lambda: written(jobs, request.path_params["job_id"]))

    base = "/headway/adapters/{job_id}"
    return [
        Route(base + "/report.json", taken),
        Route(base + "/mix", mixed, methods=["POST"]),
        Route(base, shown),
    ]


def view(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """{job, notes} and what `adapters_view` says."""
    job = _comparison(jobs, job_id)
    report = _report(job) if (job.result or {}).get("report") else None
    notes = [str(report["no_mixture"])] if report is not None and report["no_mixture"] else []
    return {"job": job_details(job), "notes": notes, **adapters_view(job, report)}


def mix(jobs: Jobs, job_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """See `mix_view`; values: {shares: {adapter: number}}. Nothing is measured. Raises HeadwayError."""
    shares = values.get("shares")
    if not isinstance(shares, Mapping) or not shares:
        raise HeadwayError("A mix of traffic is a number for each adapter.")
    try:
        asked = {str(name): float(share) for name, share in shares.items()}
    except (TypeError, ValueError):
        raise HeadwayError("The traffic of an adapter has to be a number.") from None
    return mix_view(_report(_comparison(jobs, job_id)), asked)


def written(jobs: Jobs, job_id: str) -> Response:
    """The file as the job wrote it. Raises HeadwayError where there is none."""
    report = _report(_comparison(jobs, job_id))
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    return download(text, f"adapters-{job_id}.json", "application/json")


def _report(job: Any) -> dict[str, Any]:
    place = (job.result or {}).get("report")
    if not place:
        raise HeadwayError("This comparison is not over, so it has no report yet.")
    try:
        found: dict[str, Any] = json.loads(Path(place).read_text(encoding="utf-8"))
    except OSError as error:
        raise HeadwayError(f"The report {place} can't be read: {error.strerror or error}.") from None
    except ValueError:
        raise HeadwayError(f"The report {place} is damaged; compare the adapters again.") from None
    return found


def _comparison(jobs: Jobs, job_id: str) -> Any:
    job = jobs.get(job_id)
    if job.kind != KIND:
        raise HeadwayError(f"The job {job_id} is no comparison of adapters.")
    return job
