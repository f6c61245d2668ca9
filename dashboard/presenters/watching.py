"""What a watch has seen, for the Versions page. Torch-free; reads no store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

MOST_ALARMS = 20
MOST_SERIES = 60


def watch_view(job: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """{job, status, requests, rejected, alarms: [{sentence, at}], series: [{drafter, domain, version, requests, recent,
    baseline, lost, alarmed}]}: the newest alarms first; `lost` is the share of the baseline that is gone, None before
    there is one.
    """
    alarms = sorted(found["alarms"], key=lambda one: -float(one["at_s"]))[:MOST_ALARMS]
    return {
        "job": job.id,
        "status": job.status,
        "requests": found["requests"],
        "rejected": sum(found["rejected"].values()),
        "alarms": [{"sentence": one["sentence"], "at": _moment(one["at_s"])} for one in alarms],
        "series": [_series(row) for row in found["series"][:MOST_SERIES]],
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _series(row: Mapping[str, Any]) -> dict[str, Any]:
    recent, baseline = row["recent"], row["baseline"]
    known = recent is not None and baseline is not None
    names = ("drafter", "domain", "version", "requests", "recent", "baseline")
    lost = 1 - recent / baseline if known else None
    return {name: row[name] for name in names} | {"lost": lost, "alarmed": bool(row["raised"])}
