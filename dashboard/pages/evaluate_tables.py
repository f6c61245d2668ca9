"""Tables of evaluations, kept in memory and brought up to date from the store; and the routes the page reads them by.

Only what came since the last look is read and computed, so a table may be asked for every second while it fills.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.analysis.evaluation import MEAN, PLAIN, Evaluation, Row, part_from_dict
from backend.errors import HeadwayError
from backend.jobs.evaluate_config import SETUP
from dashboard.answers import answer, download
from dashboard.jobs import Jobs
from dashboard.presenters.evaluation import Pace, evaluation_csv, evaluation_view
from dashboard.presenters.jobs import job_details

KIND = "evaluate"
MAX_KEPT = 8
LOOKED_BACK = 12  #: evaluations that are searched for a pace


@dataclass
class _Known:
    seq: int = 0
    setup: dict[str, Any] | None = None
    evaluation: Evaluation = field(default_factory=Evaluation)
    rows: list[Row] = field(default_factory=list)


class Tables:
    """Thread safe. Raises StoreError for unknown jobs and HeadwayError for jobs of another kind."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def look(self, job_id: str) -> tuple[dict[str, Any] | None, list[Row]]:
        """(the conditions, None until they are known; the rows so far)."""
        if self._jobs.get(job_id).kind != KIND:
            raise HeadwayError("That job is no evaluation; open it from the page it was started on.")
        with self._lock:
            known = self._known.setdefault(job_id, _Known())
            self._known.move_to_end(job_id)
            while len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
            self._catch_up(job_id, known)
            return known.setup, known.rows

    def view(self, job_id: str) -> dict[str, Any]:
        """What the page shows: {job, groups, conditions, notes, rule, sizes}."""
        setup, rows = self.look(job_id)
        sizes = {name: one["prompts"] for name, one in (setup or {}).get("sets", {}).items()}
        job = job_details(self._jobs.get(job_id))
        return {"job": job, "sizes": sizes | {MEAN: sum(sizes.values())}, **evaluation_view(setup, rows)}

    def pace(self, target: str) -> Pace | None:
        """How fast plain decoding of this target was in the newest evaluation that says so."""
        for job in self._jobs.list(kinds=[KIND], limit=LOOKED_BACK):
            if job.config.get("target") != target:
                continue
            _, rows = self.look(job.id)
            plain = [row for row in rows if row.contender == PLAIN and row.category is None and row.set != MEAN]
            speeds = {row.batch: row.end_to_end_tokens_per_s for row in plain if row.end_to_end_tokens_per_s}
            prompts = sum(row.num_prompts for row in plain)
            if speeds and prompts:
                tokens = sum(row.num_tokens for row in plain) / prompts
                return Pace(speeds, tokens, int(job.config["max_new_tokens"]))
        return None

    def _catch_up(self, job_id: str, known: _Known) -> None:
        news = self._jobs.items(job_id, after_seq=known.seq)
        for item in news:
            known.seq = item.seq
            if item.key == SETUP:
                known.setup = item.data
            else:
                known.evaluation.add(item.key, part_from_dict(item.data))
        if news:
            known.rows = known.evaluation.rows()


def evaluation_routes(tables: Tables) -> list[Route]:
    """`/headway/evaluations/ID`: what the page shows; `.csv` and `.json`: the table to take along."""

    async def shown(request: Request) -> Response:
        return await answer(lambda: tables.view(request.path_params["job_id"]))

    async def taken(request: Request) -> Response:
        job_id, form = request.path_params["job_id"], request.path_params["form"]
        return await answer(lambda: _file(tables, job_id, form))

    base = "/headway/evaluations/{job_id}"
    return [Route(base + ".{form}", taken), Route(base, shown)]


def _file(tables: Tables, job_id: str, form: str) -> Response:
    setup, rows = tables.look(job_id)
    if form == "csv":
        return download(evaluation_csv(rows), f"evaluation-{job_id}.csv", "text/csv")
    if form == "json":
        data = json.dumps({"setup": setup, "rows": [row.to_dict() for row in rows]}, ensure_ascii=False)
        return download(data, f"evaluation-{job_id}.json", "application/json")
    raise HeadwayError("An evaluation comes as .csv or .json.")
