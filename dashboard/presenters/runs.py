"""Runs as the page lists them, and the request behind a run. Pure functions of records and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from backend.engine.protocol import DecodeRequest, Event
from backend.errors import HeadwayError


def run_row(run: Any) -> dict[str, Any]:
    """One line of the list of recent runs, from a store's RunSummary: plain values for JSON."""
    return {
        "id": run.id,
        "at": run.created_at.isoformat(),
        "status": run.status,
        "prompt": " ".join(run.prompt_start.split())[:160],
        "drafter": run.drafter_name,
        "target": run.version_label,
        "tokens": run.num_tokens,
        "steps": run.num_steps,
        "acceptance_length": run.acceptance_length,
        "error": run.error,
        "replayable": not run.traces_pruned,
    }


def request_from(candidate: Any) -> DecodeRequest | None:
    """The request in a stored dictionary; None when it is missing or of another age."""
    if not isinstance(candidate, dict):
        return None
    try:
        return DecodeRequest.model_validate(candidate)
    except (ValidationError, HeadwayError):
        return None


def answer_of(events: Iterable[Event]) -> str | None:
    """The text of a finished run, None when it did not get that far."""
    text = None
    for event in events:
        if event.kind == "result":
            text = str(event.data.get("text", ""))
    return text
