"""Made-up evaluations in a real store. Knows no test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.analysis.evaluation import PLAIN, Part
from backend.jobs.evaluate_config import SETUP, EvaluateJobConfig
from storage import JobRecord, Store
from tests.analysis.made_up import parts

CONFIG = EvaluateJobConfig(prompts=("poems.jsonl", "proofs.jsonl"), drafters=("good", "idle"), temperatures=(0.0, 1.0))


def setup(rule: str = "rejection", **contenders: dict[str, Any]) -> dict[str, Any]:
    """Conditions as a job writes them; `contenders` changes what is said of one."""
    known = {
        name: {"spec": name, "tree": None, "name": f"{name} heads", "family": "medusa", "num_nodes": 4, "max_depth": 3,
               "tree_paths": [], "weights": "w", "warnings": []} | contenders.get(name, {})
        for name in (PLAIN, "good", "idle")
    }  # fmt: skip
    sets = {name: {"prompts": 9, "broken": 0, "left_out": 0, "ids": []} for name in ("poems", "proofs")}
    config = CONFIG.model_copy(update={"rule": rule}).model_dump(mode="json")
    return {
        "target": "smollm2-135m", "version": {"weights_id": "a10d8d3be5791234"}, "device": "cpu (x86_64)",
        "dtype": "float32", "threads": 2, "packages": {"torch": "2.13.0"}, "min_width": 1, "contenders": known,
        "sets": sets, "skipped": [], "config": config,
    }  # fmt: skip


def measured(seed: int = 3) -> list[Part]:
    """Parts in the order in which a job measures them, the first of plain decoding."""
    return sorted(
        parts(seed), key=lambda part: (part.set, part.temperature, part.answers[0].prompt, part.contender != PLAIN)
    )


def add_evaluation(store: Store, name: str = "poems, proofs: good, idle") -> JobRecord:
    """A job that is running and has measured nothing yet."""
    made = store.create_job(kind="evaluate", name=name, config=CONFIG.model_dump(mode="json"))
    leased = store.lease_job("host:1:x", job_id=made.id)
    assert leased is not None
    store.put_items(leased.id, leased.attempt, {SETUP: setup()})
    return leased


def report(store: Store, job: JobRecord, found: Sequence[Part], first: int = 0) -> None:
    """The parts as the job's items, and how far it is."""
    items = {f"part {number}": part.to_dict() for number, part in enumerate(found, first)}
    store.put_items(job.id, job.attempt, items)
    progress = {"done": first + len(found), "total": 108, "unit": "answers", "note": "good on poems", "left_s": 30}
    store.heartbeat(job.id, job.attempt, progress)
