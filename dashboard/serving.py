"""What the Serve page asks of one job: a server, a load test or a comparison, as far as it is. Knows no Gradio."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from backend.serving.load_figures import figures
from backend.serving.server import LOG
from dashboard.answers import answer, download
from dashboard.jobs import Jobs
from dashboard.presenters.jobs import job_details
from dashboard.presenters.serving import KINDS, conditions_of, load_csv, positions_csv, speculation_words

LOG_LINES = 40


class Serving:
    """Raises StoreError for unknown jobs and HeadwayError for jobs of another kind."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def view(self, job_id: str) -> dict[str, Any]:
        """{job, notes, conditions, server or load or comparison, log}."""
        job = self._jobs.get(job_id)
        if job.kind not in KINDS:
            raise HeadwayError("That job serves nothing; open it from the page it was started on.")
        items = {item.key: item.data for item in self._jobs.items(job_id)}
        server = items.get("server") or {}
        found: dict[str, Any] = {
            "kind": job.kind,
            "job": job_details(job),
            "notes": [],
            "log": self._last_lines(job_id),
        }
        if job.kind == "vllm":
            found["server"] = server | {"drafts": speculation_words(server)} if server else None
        elif job.kind == "load-test":
            found["load"] = self._load(job, items)
            if found["load"]["gone"]:
                found["notes"].append(found["load"]["gone"])
        else:
            found["comparison"] = job.result
        first = next((row.get("server", {}) for row in items.values() if isinstance(row.get("server"), dict)), {})
        return found | {"conditions": conditions_of(job.kind, job.config, server or first)}

    def _load(self, job: Any, items: dict[str, Any]) -> dict[str, Any]:
        if job.result:
            return dict(job.result)
        gone = next((row["gone"] for row in items.values() if row.get("gone")), None)
        return figures(items, []) | {"gone": gone}

    def _last_lines(self, job_id: str) -> list[str]:
        """The end of what vLLM said."""
        try:
            text = (self._jobs.folder(job_id) / LOG).read_text(encoding="utf-8", errors="replace")
        except (OSError, HeadwayError):
            return []
        return text.splitlines()[-LOG_LINES:]


def serving_routes(serving: Serving) -> list[Route]:
    """`/headway/serving/ID`: what the page shows; `.csv` and `.json` to take along."""

    async def shown(request: Request) -> Response:
        return await answer(lambda: serving.view(request.path_params["job_id"]))

    async def taken(request: Request) -> Response:
        job_id, form = request.path_params["job_id"], request.path_params["form"]
        return await answer(lambda: _file(serving.view(job_id), job_id, form))

    base = "/headway/serving/{job_id}"
    return [Route(base + ".{form}", taken), Route(base, shown)]


def _file(found: dict[str, Any], job_id: str, form: str) -> Response:
    kept = found.get("load") or found.get("comparison") or found.get("server") or {}
    if form == "json":
        return download(json.dumps(kept, ensure_ascii=False), f"{found['kind']}-{job_id}.json", "application/json")
    if form == "csv" and found.get("load"):
        return download(load_csv(kept["rows"]), f"load-test-{job_id}.csv", "text/csv")
    if form == "csv" and found.get("comparison"):
        return download(positions_csv(kept["positions"]), f"comparison-{job_id}.csv", "text/csv")
    raise HeadwayError("Load tests and comparisons come as .csv or .json.")
