"""A job kind without torch and a worker process for it, so that tests of workers start in a blink.

The job counts to `steps`; it keeps its place in a file, reports every step, and can misbehave.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from backend.errors import Cancelled, HeadwayError
from backend.jobs import kinds
from backend.jobs.context import JobContext
from backend.jobs.kinds import JobKind
from backend.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


class CountConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(5, ge=1, description="how far to count")
    pause_s: float = Field(0.01, ge=0, description="seconds a step")
    trouble: str = Field("", description="memory, package, sentence, bug, frozen or disk")
    out: str | None = Field(None, description="where the count is kept")
    data: str | None = Field(None, description="a file that must not change")
    batch: int = Field(4, ge=1, description="nothing, but costly")


def count(config: CountConfig, context: JobContext) -> dict[str, Any]:
    if config.data:
        context.pin([Path(config.data)])
    place = context.folder / "count.json"
    done = json.loads(place.read_text()) if place.exists() else 0
    context.resumed_at(done)
    context.log(f"Counting from {done}.")
    _misbehave(config.trouble)
    while done < config.steps:
        if context.should_stop():
            raise Cancelled("Stopped.")
        time.sleep(config.pause_s)
        done += 1
        context.metrics(done, {"square": float(done * done)})
        place.with_suffix(".tmp").write_text(json.dumps(done))
        os.replace(place.with_suffix(".tmp"), place)
        context.item(f"step {done % 3}", {"done": done})
        context.progress(done, config.steps, "step")
    return {"sum": sum(range(done + 1))}


def _misbehave(trouble: str) -> None:
    if trouble == "memory":
        raise MemoryError
    if trouble == "torch memory":
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory")
    if trouble == "package":
        raise ModuleNotFoundError("No module named 'peft'", name="peft.tuners")
    if trouble == "sentence":
        raise HeadwayError("The answers are empty; distil some first.")
    if trouble == "disk":
        raise OSError(28, "No space left on device")
    if trouble == "bug":
        raise KeyError("oops")
    if trouble == "frozen":
        os.kill(os.getpid(), signal.SIGSTOP)


COUNT = JobKind("count", "Count", "tests.jobs.light:CountConfig", "tests.jobs.light:count", ("batch",))


def with_count() -> dict[str, JobKind]:
    return {**kinds.JOB_KINDS, "count": COUNT}


def launch(arguments: Sequence[str], settings: Settings, job_id: str) -> subprocess.Popen[bytes]:
    """Starts this module as the worker."""
    environ = {**os.environ, "HEADWAY_HOME": str(settings.home), "HEADWAY_CACHE": str(settings.cache)}
    folder = settings.jobs / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.light", *arguments],
            cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


if __name__ == "__main__":
    import backend.jobs.as_text
    import backend.jobs.carry_out
    from backend.jobs import worker

    backend.jobs.carry_out.JOB_KINDS = backend.jobs.as_text.JOB_KINDS = with_count()
    sys.exit(worker.main())
