"""What the Audit page asks about an audit: its verdict and evidence, what was found so far, its certificate. Thin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from dashboard.answers import answer, download
from dashboard.jobs import Jobs
from dashboard.presenters.audit import audit_view, so_far
from dashboard.presenters.jobs import job_details

KIND = "audit"
#: the certificate is shown as it was written and may run or fetch nothing
NOTHING_ELSE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'", "cache-control": "no-store"}


def audit_routes(jobs: Jobs) -> list[Route]:
    """`/headway/audits/ID`: what the page shows; `/certificate.html` and `.json`: what was written at the end."""

    async def shown(request: Request) -> Response:
        return await answer(lambda: view(jobs, request.path_params["job_id"]))

    async def taken(request: Request) -> Response:
        job_id, form = request.path_params["job_id"], request.path_params["form"]
        return await answer(lambda: certificate(jobs, job_id, form, "save" in request.query_params))

    base = "/headway/audits/{job_id}"
    return [Route(base + "/certificate.{form}", taken), Route(base, shown)]


def view(jobs: Jobs, job_id: str) -> dict[str, Any]:
    """{job, notes, so_far} and what `audit_view` says."""
    job = _audit(jobs, job_id)
    details = job_details(job)
    found = so_far(item.data for item in jobs.items(job_id) if item.key.startswith(("greedy|", "sampled|")))
    return {"job": details, "notes": [], "so_far": found, **audit_view(job)}


def certificate(jobs: Jobs, job_id: str, form: str, save: bool) -> Response:
    """The file as the audit wrote it. Raises HeadwayError where there is none."""
    job = _audit(jobs, job_id)
    place = {"html": "page", "json": "file"}.get(form)
    if place is None:
        raise HeadwayError("A certificate comes as certificate.html or certificate.json.")
    written = (job.result or {}).get(place)
    if not written:
        raise HeadwayError("This audit is not over, so it has no certificate yet.")
    try:
        text = Path(written).read_text(encoding="utf-8")
    except OSError as error:
        raise HeadwayError(f"The certificate {written} can't be read: {error.strerror or error}.") from None
    media = "text/html" if form == "html" else "application/json"
    if save or form == "json":
        return download(text, f"audit-{job_id}.{form}", media)
    return Response(text, media_type=f"{media}; charset=utf-8", headers=NOTHING_ELSE)


def _audit(jobs: Jobs, job_id: str) -> Any:
    job = jobs.get(job_id)
    if job.kind != KIND:
        raise HeadwayError(f"The job {job_id} is no audit.")
    return job
