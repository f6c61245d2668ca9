"""Sweeps as their page reads them: kept in memory, brought up to date from the store, answered piece by piece.

Only trials that came or changed since the reader's last look are sent, so a sweep of thousands may be watched.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from backend.jobs.sweep_config import SETUP, SweepJobConfig
from backend.sweeps.ledger import Ledger, table_rows
from backend.sweeps.trial import trial_from_dict
from dashboard.answers import answer, download
from dashboard.jobs import Jobs
from dashboard.presenters.as_csv import as_csv
from dashboard.presenters.jobs import job_details
from dashboard.presenters.sweep import sweep_view

KIND = "sweep"
MAX_KEPT = 6
LOOKED_BACK = 8  #: sweeps that are searched for a pace


@dataclass
class _Known:
    config: SweepJobConfig
    ledger: Ledger
    seqs: dict[int, int]
    seq: int = 0
    setup: dict[str, Any] | None = None


class Sweeps:
    """Thread safe. Raises StoreError for unknown jobs and HeadwayError for jobs of another kind."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def view(self, job_id: str, after: int = 0) -> dict[str, Any]:
        """{job, seq: where the reader stands then, ...}; see presenters.sweep."""
        with self._lock:
            known = self._look(job_id)
            news = [known.ledger.trials[number] for number, seq in sorted(known.seqs.items()) if seq > after]
            shown = sweep_view(known.config, known.setup, known.ledger, news)
        return {"job": job_details(self._jobs.get(job_id)), "seq": known.seq, **shown}

    def table(self, job_id: str) -> dict[str, Any]:
        """The whole sweep to take along."""
        with self._lock:
            known = self._look(job_id)
            front = known.ledger.front()
            rows = table_rows(known.ledger.ordered(), front)
        return {"setup": known.setup, "objectives": list(known.config.objectives), "front": front, "trials": rows}

    def pace(self, target: str) -> float | None:
        """Tokens a second of plain decoding in the newest sweep of this target."""
        for job in self._jobs.list(kinds=[KIND], limit=LOOKED_BACK):
            if job.config.get("target") != target:
                continue
            with self._lock:
                speeds = [one.plain_speed for one in self._look(job.id).ledger.trials.values() if one.plain_speed]
            if speeds:
                return sorted(speeds)[len(speeds) // 2]
        return None

    def _look(self, job_id: str) -> _Known:
        job = self._jobs.get(job_id)
        if job.kind != KIND:
            raise HeadwayError("That job is no sweep; open it from the page it was started on.")
        if job_id not in self._known:
            config = SweepJobConfig.model_validate(job.config)
            self._known[job_id] = _Known(config, Ledger(config.goals, config.facts(), config.max_drift), {})
        known = self._known[job_id]
        self._known.move_to_end(job_id)
        while len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        for item in self._jobs.items(job_id, after_seq=known.seq):
            known.seq = item.seq
            if item.key == SETUP:
                known.setup = item.data
            else:
                trial = known.ledger.put(trial_from_dict(item.data))
                known.seqs[trial.number] = item.seq
        return known


def sweep_routes(sweeps: Sweeps) -> list[Route]:
    """`/headway/sweeps/ID?after=SEQ`: what the page shows; `.csv` and `.json`: the trials to take along."""

    async def shown(request: Request) -> Response:
        text = request.query_params.get("after") or ""
        after = int(text[:18]) if text.isascii() and text.isdigit() else 0
        return await answer(lambda: sweeps.view(request.path_params["job_id"], after))

    async def taken(request: Request) -> Response:
        job_id, form = request.path_params["job_id"], request.path_params["form"]
        return await answer(lambda: _file(sweeps, job_id, form))

    base = "/headway/sweeps/{job_id}"
    return [Route(base + ".{form}", taken), Route(base, shown)]


def _file(sweeps: Sweeps, job_id: str, form: str) -> Response:
    table = sweeps.table(job_id)
    if form == "json":
        return download(json.dumps(table, ensure_ascii=False), f"sweep-{job_id}.json", "application/json")
    if form == "csv":
        return download(sweep_csv(table["trials"]), f"sweep-{job_id}.csv", "text/csv")
    raise HeadwayError("A sweep comes as .csv or .json.")


def sweep_csv(rows: list[dict[str, Any]]) -> str:
    """A line a trial: number, state, what was turned, what was measured."""
    knobs = list(dict.fromkeys(name for one in rows for name in one["values"]))
    figures = list(dict.fromkeys(name for one in rows for name in one["figures"]))
    listed = []
    for one in rows:
        values = [one["values"].get(name) for name in knobs]
        measured = [one["figures"].get(name) for name in figures]
        marks = [one["reference"], one["front"], one["feasible"]]
        listed.append([one["number"], one["state"], *marks, *values, *measured, one["reason"]])
    return as_csv(["trial", "state", "reference", "front", "feasible", *knobs, *figures, "reason"], listed)
