"""What the Doctor page asks about a diagnosis: its causes, how far it is, its file. Thin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, download
from dashboard.jobs import Jobs
from dashboard.presenters.doctor import doctor_view
from dashboard.presenters.jobs import job_details

KIND = "doctor"


def doctor_routes(jobs: Jobs) -> list[Route]:
    """`/headway/diagnoses/ID`: what the page shows; `/diagnosis.json`: what was written at the end."""

    async def shown(request: Request) -> Response:
        return await answer(lambda: view(jobs, request.path_params["job_id"]))

    async def taken(request: Request) -> Response:
        return await answer(lambda: written(jobs, request.path_params["job_id"]))

    base = "/headway/diagnoses/{job_id}"
    return [Route(base + "/diagnosis.json", taken), Route(base, shown)]


def view(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """{job, notes} and what `doctor_view` says."""
    job = _diagnosis(jobs, job_id)
    keys = [item.key for item in jobs.items(job_id)] if job.result is None else []
    return {"job": job_details(job), "notes": [], **doctor_view(job, keys)}


def written(jobs: Jobs, job_id: str) -> Response:
    """The file as the job wrote it. Raises HeadwayError where there is none."""
    file = (_diagnosis(jobs, job_id).result or {}).get("file")
    if not file:
        raise HeadwayError("This diagnosis is not over, so it has no file yet.")
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise HeadwayError(f"The diagnosis {file} can't be read: {error.strerror or error}.") from None
    return download(text, f"diagnosis-{job_id}.json", "application/json")


def _diagnosis(jobs: Jobs, job_id: str) -> Any:
    job = jobs.get(job_id)
    if job.kind != KIND:
        raise HeadwayError(f"The job {job_id} is no diagnosis.")
    return job
