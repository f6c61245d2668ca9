"""Made-up sweeps in a real store. Knows no test."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.jobs.sweep_config import SETUP, SweepJobConfig
from backend.sweeps.combine import meaningful
from backend.sweeps.trial import Trial
from storage import JobRecord, Store
from tests.jobs.sweep_fake import SETUP as CONDITIONS

DIAL: dict[str, Any] = {"rule": ["typical"], "temperature": [0.7], "tree": ["chain-2", "2x2", "3x2x1"],
                        "epsilon": "0.01 to 0.5 log", "delta": "0.05 to 0.9"}  # fmt: skip


def config_of(**changes: Any) -> SweepJobConfig:
    values: dict[str, Any] = {"target": "smollm2-135m", "prompts": ("poems.jsonl",), "space": DIAL,
                              "objectives": ("speed", "drift"), "sampler": "random", "trials": 2000}  # fmt: skip
    return SweepJobConfig(**values | changes)


def made_up_trials(count: int, config: SweepJobConfig | None = None) -> list[Trial]:
    """Finished trials of the dial: looser thresholds are faster and drift more; the tree matters most. One exact
    reference, one skipped, one pruned.
    """
    rng = np.random.default_rng(5)
    dimensions = (config or config_of()).dimensions
    found = [Trial(-1, {"rule": "rejection", "temperature": 0.7, "tree": "2x2"},
                   {"rule": "rejection", "temperature": 0.7, "tree": "2x2", "drafter": "builtin-medusa", "batch": 1},
                   "finished", 1, {"speed": 31.0, "drift": 0.0, "acceptance_length": 1.5}, reference=True)]  # fmt: skip
    for number in range(count):
        values = {one.knob.name: one.drawn(rng) for one in dimensions}
        loose = 0.5 - float(values["epsilon"]) + 0.2 * (0.9 - float(values["delta"]))
        speed = 30 + 14 * loose + 6 * {"chain-2": 0, "2x2": 1, "3x2x1": 0.4}[str(values["tree"])] + rng.normal(0, 0.8)
        drift = 0.02 + 0.3 * loose**2 + rng.normal(0, 0.005)
        figures = {"speed": float(speed), "drift": float(max(0, drift)), "acceptance_length": 1.4 + loose}
        found.append(Trial(number, values, meaningful(values), "finished", 1, figures, wall_s=3.0))
    skipped = Trial(count, {"tree": "9x9x9"}, {"tree": "9x9x9"}, "skipped", reason="The product tree is too large.")
    pruned = Trial(count + 1, {"tree": "2x2"}, {"tree": "2x2"}, "pruned", 1, reason="Trial 3 beat it.")
    return [*found, skipped, pruned]


def add_sweep(store: Store, name: str = "ε, δ for speed", trials: int = 12, **changes: Any) -> JobRecord:
    """A job that is running and has these trials."""
    config = config_of(**changes)
    made = store.create_job(kind="sweep", name=name, config=config.model_dump(mode="json"))
    leased = store.lease_job("host:1:x", job_id=made.id)
    assert leased is not None
    store.put_items(leased.id, leased.attempt, {SETUP: CONDITIONS | {"config": config.model_dump(mode="json")}})
    report(store, leased, made_up_trials(trials))
    return leased


def report(store: Store, job: JobRecord, trials: list[Trial]) -> None:
    """The trials as the job's items, and how far it is."""
    store.put_items(job.id, job.attempt, {one.key: one.to_dict() for one in trials})
    done = float(sum(not one.reference for one in trials))
    progress = {"done": done, "total": 2000.0, "unit": "trials", "note": "best tokens/s 41", "left_s": 90}
    store.heartbeat(job.id, job.attempt, progress)
