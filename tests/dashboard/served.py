"""Made-up counts of a serving engine and parts of load tests, in a real store. Knows no test."""

from __future__ import annotations

from typing import Any

from storage import JobRecord, Store

HOSTILE = "${document.title='broken'}<b>x</b>"
SERVER = {
    "url": "http://127.0.0.1:8123", "model": HOSTILE, "version": "vLLM 0.32.0", "build": "cpu", "speculates": True,
    "speculation": {"method": "medusa", "num_speculative_tokens": 3}, "contended": False,
}  # fmt: skip


def running(store: Store, kind: str, config: dict[str, Any], items: dict[str, dict[str, Any]]) -> JobRecord:
    made = store.create_job(kind=kind, name=f"{kind} {HOSTILE}", config=config)
    job = store.lease_job("host:1:x", job_id=made.id)
    assert job is not None
    store.put_items(job.id, job.attempt, items)
    return job


def counts(speed: float, rates: list[float]) -> dict[str, float]:
    values = {"tokens_per_s": speed, "running": 2, "waiting": 0, "drafts": 1200, "draft_tokens": 3600, "accepted": 900}
    return values | {"acceptance_length": 1 + sum(rates)} | {f"position_{n}": rate for n, rate in enumerate(rates, 1)}


def part(arm: str, clients: int, speed: float) -> dict[str, Any]:
    drafts = (
        {"drafts": 100, "draft_tokens": 300, "accepted": 70, "by_position": [50, 15, 5]} if arm != "plain" else None
    )
    times = {"p50": 120.4, "p95": 180.0, "p99": 200.0}
    return {
        "arm": arm, "clients": clients, "rate": None, "seconds": 20.0, "requests": 9, "answered": 8, "failed": 1,
        "cut": 0, "tokens": 400, "tokens_per_s": speed, "requests_per_s": 0.4, "ttft_ms": times, "tpot_ms": times,
        "latency_ms": times, "drafts": drafts, "gone": None, "round": 0, "server": SERVER,
    }  # fmt: skip
