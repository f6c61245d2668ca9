"""What the pages ask about runs: submit, cancel, look one up, list the stored ones. Joins engine and store for the
pages.

Knows no Gradio and no HTTP. Requests of runs started here are remembered in memory, so a page can re-attach to a run
that has not reached the store.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from backend.engine.protocol import DecodeRequest
from backend.errors import HeadwayError
from dashboard.presenters.runs import answer_of, request_from, run_row
from dashboard.services import Services
from storage.errors import StoreError

MAX_REMEMBERED = 1000
PERSONS_ERRORS = (HeadwayError, StoreError)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownRun:
    """A run and the request behind it; None when the request was not kept."""

    run_id: str
    request: DecodeRequest | None


class Runs:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._requests: OrderedDict[str, DecodeRequest] = OrderedDict()

    def submit(self, request: DecodeRequest) -> ShownRun:
        """Raises HeadwayError when the engine refuses."""
        run_id = self._services.engine.submit(request)
        self._requests[run_id] = request
        while len(self._requests) > MAX_REMEMBERED:
            self._requests.popitem(last=False)
        return ShownRun(run_id, request)

    def cancel(self, run_id: str) -> None:
        self._services.engine.cancel(run_id)

    def share(self, run_id: str) -> None:
        """Let a run that waits for the device be decoded on the CPU now, beside whoever has it."""
        self._services.engine.share(run_id)

    def find(self, run_id: str) -> ShownRun:
        """Raises HeadwayError or StoreError for a run that neither this process nor the store knows."""
        if run_id in self._requests:
            return ShownRun(run_id, self._requests[run_id])
        for event in self._services.engine.events(run_id, timeout_s=0.1):
            stored = event.data.get("request") or (event.data.get("conditions") or {}).get("request")
            if stored or event.kind == "step":
                return ShownRun(run_id, request_from(stored))
        return ShownRun(run_id, None)

    def answer(self, run_id: str) -> str:
        """The answer of a finished run. Raises HeadwayError when there is none yet."""
        text = answer_of(self._services.engine.events(run_id, timeout_s=0.1))
        if text is None:
            raise HeadwayError("Wait for the answer before replying to it.")
        return text

    def recent(self) -> list[dict[str, Any]]:
        store = self._services.store
        if store is None:
            return []
        return [run_row(run) for run in store.list_runs(limit=self._services.settings.recent_limit)]

    def drafters(self, target: str) -> list[dict[str, Any]]:
        """Raises HeadwayError for a target that cannot be."""
        return self._services.engine.drafters(target)

    def started_with(self) -> dict[str, str | bool]:
        """What the engine was started with: device, dtype and trust, as far as they were chosen."""
        return self._services.engine.status().started_with

    def status(self) -> dict[str, Any]:
        status = self._services.engine.status()
        return {
            "holder": status.holder,
            "running": status.running,
            "queued": len(status.queued),
            "loaded_target": status.loaded_target,
            "device": status.device,
            "place": status.place or status.device,
            "job": status.job,
            "unstored": status.unstored,
        }


def one_sentence(error: Exception) -> str:
    """What a person is told: their own error as it is, a fault of the program without its insides."""
    if isinstance(error, PERSONS_ERRORS):
        return str(error)
    log.error("a page's request failed", exc_info=error)
    return "Something went wrong inside Headway; its log has the details."
