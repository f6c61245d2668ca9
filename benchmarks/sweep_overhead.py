"""How much of a sweep's time is not decoding: `python -m benchmarks.sweep_overhead --prompts SET.jsonl`.

Runs a real sweep in worker processes, every trial recorded in a store of its own, and holds the time that its trials
spent decoding (reading prompts and plain decoding included) against the time from the first trial's start to the last
one's end. The first target load is told apart. Knows no page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from backend.engine.conditions import packages
from backend.jobs.carry_out import carry_out
from backend.jobs.store_context import StoreContext
from backend.jobs.sweep_config import SETUP, SweepJobConfig
from backend.settings import Settings
from backend.targets.kernels import cpu_name
from benchmarks.common import add_prompt_arguments, start_fast
from storage import Store, owner_token

TREES = ["chain-1", "chain-2", "chain-3", "2x1", "2x2", "3x1", "2x1x1", "3x2", "2x2x1", "4x2"]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """The sweep's times in seconds."""
    config = SweepJobConfig(
        target=arguments.target,
        prompts=tuple(arguments.prompts),
        limit=arguments.limit,
        max_new_tokens=arguments.max_new_tokens,
        space={"drafter": arguments.drafter, "tree": TREES, "temperature": "0.1 to 1.2"},
        sampler=arguments.sampler,
        trials=arguments.trials,
        prune_p=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder), arguments.cache or Settings.from_environ().cache)
        with Store.open(settings.database) as store:
            made = store.create_job(kind="sweep", name="overhead", config=config.model_dump(mode="json"))
            job = store.lease_job(owner_token(), job_id=made.id)
            assert job is not None
            marks: dict[str, float] = {}

            def show(done: float, total: float, unit: str, note: str) -> None:
                marks.setdefault(unit, time.monotonic())

            context = StoreContext(store, job, settings, on_stale=lambda: sys.exit(1), say=lambda text: None, show=show)
            began = time.monotonic()
            outcome = carry_out(context)
            ended = time.monotonic()
            if outcome.status != "finished":
                raise SystemExit(f"The sweep is {outcome.status}: {outcome.error}")
            trials = [item.data for item in store.items(job.id) if item.key != SETUP]
    return _summed(trials, marks, began, ended)


def _summed(trials: list[dict[str, Any]], marks: dict[str, float], began: float, ended: float) -> dict[str, Any]:
    finished = [one for one in trials if one["state"] == "finished"]
    decoding = sum(one["figures"]["spent_s"] for one in finished)
    whole = ended - marks.get("trials", began)
    return {
        "trials": len(finished),
        "others": len(trials) - len(finished),
        "load_s": round(marks.get("trials", began) - began, 2),
        "trials_s": round(whole, 2),
        "decoding_s": round(decoding, 2),
        "in_trials_s": round(sum(one["wall_s"] for one in finished), 2),
        "lost_share": round(1 - decoding / whole, 4),
        "contended": any(one["contended"] for one in finished),
        "others_busy": max((one["others_busy"] or 0 for one in finished), default=None),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="How much of a sweep's time is not decoding.")
    add_prompt_arguments(parser, limit=4, new_tokens=64)
    parser.add_argument("--drafter", default="builtin-medusa")
    parser.add_argument("--sampler", default="tpe", choices=("grid", "random", "tpe", "nsga2"))
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--cache", type=Path, help="cache folder; default: Headway's")
    arguments = parser.parse_args()
    start_fast("benchmarks.sweep_overhead")
    result = {"machine": cpu_name(), "packages": packages(), "target": arguments.target, **measure(arguments)}
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out:
        Path(arguments.out).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
