"""A finished comparison of adapters in a store, made of made-up answers. Knows no test."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backend.analysis.adapter_traffic import mix_sentence, strategies, times_of, times_to_dict, traffic_shares
from backend.analysis.many_adapters import MIXTURE, SHARED, Cost, judged
from backend.jobs.adapters_config import AdaptersJobConfig
from storage import JobRecord, Store
from tests.analysis.test_many_adapters import measured

#: adapter -> (own heads' speed over the shared drafter's, noise of single prompts, prompts, the mixture's speed)
FOUND = {
    "customer-support-2026-11": (1.31, 0.1, 40, 1.12),
    "sql": (1.0, 0.05, 40, 0.97),
    "legal": (1.1, 0.6, 14, 1.05),
}


def config(out: Path, names: Any = tuple(FOUND)) -> AdaptersJobConfig:
    return AdaptersJobConfig(
        adapter=tuple(f"{name}=adapters/{name}" for name in names),
        prompts=tuple(f"{name}=prompts/{name}.jsonl" for name in names),
        traffic=tuple(f"{name}={3 - place}" for place, name in enumerate(names)),
        out=str(out),
    )


def report_of(asked: AdaptersJobConfig) -> dict[str, Any]:
    """What the job would write (jobs/adapters_job.py)."""
    own = {name: Cost(3.2 + place, 41.3) for place, name in enumerate(asked.adapters)}
    joint = {SHARED: Cost(9.4, 41.3), MIXTURE: Cost(11.2, 41.3)}
    adapters, times = [], {}
    for name in asked.adapters:
        speed, noise, prompts, mixture = FOUND[name]
        given = measured(speed, noise, prompts, mixture)
        found = judged(name, given, asked.min_gain, own[name]).to_dict()
        adapters.append(found | {"adapter": asked.adapters[name], "version": {}})
        times[name] = times_of(given)
    earned = [one["name"] for one in adapters if one["verdict"] == "earns"]
    ways = strategies(times, traffic_shares(dict(asked.shares), list(asked.adapters)), earned, own, joint)
    report = {
        "format": 1, "name": "out", "target": asked.target, "adapters": adapters, "traffic": dict(asked.shares),
        "times": {name: times_to_dict(one) for name, one in times.items()}, "no_mixture": None,
        "costs": {"own": {name: asdict(one) for name, one in own.items()},
                  "joint": {name: asdict(one) for name, one in joint.items()}},
        "strategies": [one.to_dict() for one in ways], "sentence": mix_sentence(ways),
        "answers": {name: {"answers": 320, "tokens": 40_000, "truncated": 3} for name in asked.adapters},
        "setup": {"device": "cpu", "dtype": "float32", "threads": 2, "packages": {}},
        "config": asked.model_dump(mode="json"),
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(report))
    return plain


def add_comparison(store: Store, out: Path, title: str = "three adapters", over: bool = True) -> JobRecord:
    """A job of the kind; `over`: with its report, else still running."""
    asked = config(out)
    made = store.create_job(kind="adapters", name=title, config=asked.model_dump(mode="json"))
    job = store.lease_job("host:1:x", job_id=made.id)
    assert job is not None
    if over:
        out.mkdir(parents=True, exist_ok=True)
        place, report = out / "report.json", report_of(asked)
        place.write_text(json.dumps(report), encoding="utf-8")
        brief = [{key: one[key] for key in ("name", "verdict", "sentence")} for one in report["adapters"]]
        result = {"out": str(out), "report": str(place), "adapters": brief, "sentence": report["sentence"]}
        store.end_job(job.id, job.attempt, "finished", result=result)
    return store.get_job(job.id)
