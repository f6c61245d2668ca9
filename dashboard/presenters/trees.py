"""Calibrations and cost curves as choices of the Trees page. Pure; knows no store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backend.targets.sources import short_name
from storage.job_records import JobRecord


def choice_row(job: JobRecord) -> dict[str, Any]:
    """{id, label, target, drafter, at, note} of a finished job."""
    config, result = job.config, job.result or {}
    target, drafter = short_name(str(config.get("target") or "")), _short(config.get("drafter"))
    return {
        "id": job.id,
        "label": f"{drafter} on {target}",
        "target": config.get("target"),
        "drafter": config.get("drafter"),
        "at": job.finished_at.isoformat() if job.finished_at is not None else None,
        "note": _calibrated(config, result) if job.kind == "calibrate" else _timed(result),
    }


def tuned_row(job: JobRecord) -> dict[str, Any]:
    """{id, label, calibration, cost, at, note} of a tree that was kept; the two are ids where jobs measured them."""
    result = job.result or {}
    nodes, speedup = result.get("num_nodes", 0), result.get("speedup")
    length = f"acceptance length {result.get('expected_acceptance_length', 1):.2f}"
    speed = f"{speedup:.2f} times plain decoding" if speedup else ""
    note = [f"{nodes} node{'' if nodes == 1 else 's'}", length, speed]
    return {
        "id": job.id,
        "label": job.name,
        "calibration": job.config.get("calibration"),
        "cost": job.config.get("cost"),
        "at": job.finished_at.isoformat() if job.finished_at is not None else None,
        "note": f"expected: {', '.join(filter(None, note))}" if nodes else "plain decoding is the fastest: no tree",
        "nodes": nodes,
    }


def measured_rows(job: JobRecord, drafter: str) -> list[dict[str, Any]]:
    """[{tree, batch, temperature, length, speedup, prompts, job}]: what an evaluation found of a drafter's trees."""
    found = []
    for row in (job.result or {}).get("rows", []):
        spec, _, tree = str(row["contender"]).partition(" · ")
        if spec == drafter and tree.startswith("["):
            found.append(
                {
                    "tree": tree, "batch": row["batch"], "temperature": row["temperature"],
                    "length": row["acceptance_length"], "speedup": row["speedup"], "prompts": row["num_prompts"],
                    "job": job.id,
                }
            )  # fmt: skip
    return found


def _calibrated(config: dict[str, Any], result: dict[str, Any]) -> str:
    hot = [value for value in config.get("temperatures", []) if value]
    return f"{result.get('positions', 0):,} positions" + (f", T to {max(hot):g}" if hot else "")


def _timed(result: dict[str, Any]) -> str:
    rounds = result.get("rounds", 0)
    return f"{rounds} round{'' if rounds == 1 else 's'}" + (", contended" if result.get("contended") else "")


def _short(name: Any) -> str:
    text = str(name or "")
    return text if text.startswith("draft:") else Path(text).name or text


def job_name(config: dict[str, Any]) -> str:
    """How a job that the page starts is called."""
    return f"{_short(config.get('drafter'))} on {short_name(str(config.get('target') or ''))}"
