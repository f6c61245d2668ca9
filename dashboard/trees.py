"""What the Trees page asks: which calibrations and cost curves there are, and what is best with two of them.

Joins the store's answers with a search in a process of its own. Knows no Gradio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from backend.jobs.tune_helper import TuneHelper
from dashboard.answers import answer
from dashboard.jobs import Jobs
from dashboard.presenters.trees import choice_row, measured_rows, tuned_row
from storage.job_records import JobRecord

KINDS = ("calibrate", "cost")
SHOWN = 50


class Trees:
    """`helper`: who searches; a test hands in its own."""

    def __init__(self, jobs: Jobs, helper: TuneHelper | None = None) -> None:
        self._jobs, self._helper = jobs, helper or TuneHelper()

    def choices(self) -> dict[str, Any]:
        """{calibrations, costs, tuned, running}: finished ones, the newest first, and how many are under way; `tuned`
        are the trees that were kept.
        """
        found = {
            kind: self._jobs.list(kinds=[kind], statuses=["finished"], limit=SHOWN) for kind in (*KINDS, "tune-tree")
        }
        running = self._jobs.list(kinds=list(KINDS), statuses=["queued", "running"], limit=SHOWN)
        return {
            "calibrations": [choice_row(job) for job in found["calibrate"]],
            "costs": [choice_row(job) for job in found["cost"]],
            "tuned": [tuned_row(job) for job in found["tune-tree"]],
            "running": len(running),
        }

    def view(self, calibration: str, cost: str | None, temperature: float | None, category: str) -> dict[str, Any]:
        """See backend.jobs.tune_view.view; without a calibration the cost curve alone.

        Raises HeadwayError or StoreError.
        """
        if not calibration and cost:
            return self._helper.view(cost, {"calibration": None, "cost": self._items(cost, "cost")})
        request = {
            "calibration": self._items(calibration, "calibrate"),
            "cost": self._items(cost, "cost") if cost else None,
            "temperature": temperature,
            "category": category,
        }
        found = self._helper.view(f"{calibration} {cost} {temperature} {category}", request)
        config = self._jobs.get(calibration).config
        return found | {"measured": self._measured(config)}

    def _measured(self, config: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What evaluations found of trees of the calibrated drafter, the newest first."""
        jobs = self._jobs.list(kinds=["evaluate"], statuses=["finished"], limit=SHOWN)
        same = [job for job in jobs if job.config.get("target") == config.get("target")]
        return [row for job in same for row in measured_rows(job, str(config.get("drafter")))]

    def _items(self, job_id: str, kind: str) -> dict[str, Any]:
        job = self._jobs.get(job_id)
        if job.kind != kind:
            raise HeadwayError("That job measured something else; choose another one.")
        _check_finished(job)
        return {item.key: item.data for item in self._jobs.items(job_id)}


def _check_finished(job: JobRecord) -> None:
    if job.status != "finished":
        raise HeadwayError(f"“{job.name}” is {job.status}; it can be looked at when it is finished.")


def tree_routes(trees: Trees) -> list[Route]:
    """`/headway/trees`: what can be chosen; `/headway/trees/view`: what follows from a choice."""

    async def listed(request: Request) -> Response:
        return await answer(trees.choices)

    async def shown(request: Request) -> Response:
        query = request.query_params
        return await answer(
            lambda: trees.view(
                query.get("calibration") or "",
                query.get("cost") or None,
                _number(query.get("temperature")),
                query.get("category") or "",
            )
        )

    return [Route("/headway/trees", listed), Route("/headway/trees/view", shown)]


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise HeadwayError(f"The temperature {text!r:.40} is no number.") from None
