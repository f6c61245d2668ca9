"""Jobs as pages show them: plain values for JSON, what can be done with one, how far it is. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.presenters.as_csv import as_csv

#: status -> the actions that make sense then
ACTIONS: dict[str, tuple[str, ...]] = {
    "queued": ("pause", "stop", "move"),
    "running": ("pause", "stop"),
    "paused": ("resume", "stop"),
    "interrupted": ("resume", "stop"),
    "failed": ("resume", "delete"),
    "stopped": ("resume", "delete"),
    "finished": ("delete",),
}


def job_row(job: Any) -> dict[str, Any]:
    """One job for a list or a card."""
    return {
        "id": job.id,
        "kind": job.kind,
        "name": job.name,
        "status": job.status,
        "requested": job.requested,
        "device": job.device,
        "position": job.position,
        "attempt": job.attempt,
        "created_at": _iso(job.created_at),
        "started_at": _iso(job.started_at),
        "finished_at": _iso(job.finished_at),
        "progress": progress(job.progress),
        "error": job.error,
        "parent_id": job.parent_id,
        "version_id": job.version_id,
        "drafter_id": job.drafter_id,
        "dataset_id": job.dataset_id,
        "tags": list(job.tags),
        "notes": job.notes,
        "actions": list(ACTIONS.get(job.status, ())),
    }


def job_details(job: Any) -> dict[str, Any]:
    """All of one job but its metrics, items and log."""
    return {**job_row(job), "config": job.config, "result": job.result}


def progress(stored: dict[str, Any] | None) -> dict[str, Any] | None:
    """{fraction 0..1 or None, done, total, unit, note, left_s or None} from what a job's heartbeat carries."""
    if not stored:
        return None
    done, total = stored.get("done"), stored.get("total")
    fraction = None
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        fraction = min(1.0, max(0.0, done / total))
    return {
        "fraction": fraction,
        "done": done,
        "total": total,
        "unit": stored.get("unit") or "",
        "note": stored.get("note") or "",
        "left_s": stored.get("left_s"),
    }


def metric_columns(rows: Iterable[Any]) -> list[str]:
    """The names that occur, in the order of their first occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row.values))


def metrics_csv(rows: Sequence[Any]) -> str:
    """A line a step, a column a metric; empty where a step has none."""
    columns = metric_columns(rows)
    listed = sorted(rows, key=lambda row: row.step)
    return as_csv(["step", *columns], ([row.step, *(row.values.get(name) for name in columns)] for row in listed))


def metrics_json(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The same as a list of objects."""
    return [{"step": row.step, **row.values} for row in sorted(rows, key=lambda row: row.step)]


def _iso(moment: Any) -> str | None:
    return moment.isoformat() if moment is not None else None
