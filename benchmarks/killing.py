"""Kills workers at random moments and compares what comes out with an undisturbed run; used by kills.py and by tests.

Workers are forked from a small server that has torch imported, so that an attempt costs a second and not ten. A kill is
SIGKILL: nothing gets a chance to clean up. Three in four come after the attempt has been seen to do its own work (steps
of a training, answers), the others at any time from its start on. Knows jobs by their config and their traces, nothing
of how they work.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from backend.jobs.fork import run_folder
from backend.jobs.kinds import JOB_KINDS
from backend.settings import Settings
from storage import Store, owner_is_alive

PRELOADED = ("backend.jobs.worker", "backend.jobs.distill_job", "backend.jobs.train_job", "backend.jobs.evaluate_job")
TIMES = ("_ms", "_s", "_per_s", "busy", "contended", "order")  #: endings of figures that differ from run to run
WORK = {"distill": "answers", "train": "steps", "evaluate": "answers"}  #: what a kind of job is for
AIMED = 0.75  #: part of the kills that wait for that work
MOST_KILLS = 8  #: of one job
APART = ("config", "min_width")  #: what a job was told, and what it found out about the machine when it loaded
END_S = 600.0  #: an attempt that takes longer than this is a fault


Work = tuple[int, int, int]  #: see _work_done


@dataclass(frozen=True)
class Trace:
    """All that a job left behind, times left out: equal traces mean equal work."""

    status: str
    metrics: tuple[str, ...]
    items: tuple[str, ...]
    files: tuple[str, ...]


@dataclass
class Killed:
    """What happened to one job on its way: kills by what the job was in the middle of."""

    attempts: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def num_kills(self) -> int:
        return sum(self.kills.values())


def fork_server() -> multiprocessing.context.BaseContext:
    """The context that workers are started from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _work(db: str, job_id: str, home: str, cache: str) -> None:
    os.environ.update(HEADWAY_HOME=home, HEADWAY_CACHE=cache)
    import torch

    from backend.jobs import worker

    torch.set_num_threads(1)
    os.setsid()
    sys.exit(worker.main(["--db", db, "--job", job_id]))


def start_worker(context: Any, settings: Settings, job_id: str) -> BaseProcess:
    arguments = (str(settings.database), job_id, str(settings.home), str(settings.cache))
    process: BaseProcess = context.Process(target=_work, args=arguments, daemon=False)
    process.start()
    return process


def queue_job(store: Store, kind: str, config: dict[str, Any], name: str) -> str:
    """A queued job with a checked config; its id."""
    made = JOB_KINDS[kind].config.model_validate(config)
    return store.create_job(
        kind=kind, name=name, config=made.model_dump(mode="json"), exclusive=JOB_KINDS[kind].exclusive(made)
    ).id


def run_with_kills(
    context: Any,
    store: Store,
    settings: Settings,
    job_id: str,
    rng: random.Random,
    want: Callable[[], bool],
    killed: Callable[[], None] = lambda: None,
) -> Killed:
    """Run a job to its end; kill its worker at a random moment of each attempt as long as `want()` says so, and tell
    `killed` of each. Beyond MOST_KILLS the job is left alone, or it might never end.
    """
    told, typical = Killed(), 2.0
    while store.get_job(job_id).status in ("queued", "running", "interrupted"):
        told.attempts += 1
        started = time.monotonic()
        process = start_worker(context, settings, job_id)
        before = _work_done(store, settings, job_id)
        if want() and told.num_kills < MOST_KILLS:
            works = partial(_has_worked, store, settings, job_id, before)
            _wait_for_moment(process, works, rng, typical)
            moment = _kill(process, store, settings, job_id, before)
            if moment is not None:
                told.kills[moment] = told.kills.get(moment, 0) + 1
                killed()
        process.join(END_S)
        typical = 0.5 * typical + 0.5 * (time.monotonic() - started)
        store.interrupt_dead_jobs(owner_is_alive)
        job = store.get_job(job_id)
        if job.status == "running":
            told.errors.append(f"{job.name}: still running after its worker ended")
            break
        if job.status == "interrupted":
            store.resume_job(job_id)
    return told


def _kill(process: BaseProcess, store: Store, settings: Settings, job_id: str, before: Work) -> str | None:
    """Kill it if it still lives; what it was in the middle of, None when it had ended by itself."""
    moment = _doing(store, settings, job_id, before)
    if process.pid is None or not process.is_alive():
        return None
    os.kill(process.pid, signal.SIGKILL)
    process.join(END_S)
    return moment if process.exitcode == -signal.SIGKILL else None


def _doing(store: Store, settings: Settings, job_id: str, before: Work) -> str:
    """What the attempt is in the middle of: its own work once any of it was stored, else what it said last, which is up
    to a second old.
    """
    job = store.get_job(job_id)
    if job.status == "queued":
        return job.status
    if _has_worked(store, settings, job_id, before):
        return WORK[job.kind]
    said = str((job.progress or {}).get("unit") or "starting")
    return "starting" if said == WORK[job.kind] else said  # the attempt before said that


def _wait_for_moment(
    process: BaseProcess, has_worked: Callable[[], bool], rng: random.Random, typical: float
) -> None:
    deadline = time.monotonic() + END_S
    if rng.random() < AIMED:
        while process.is_alive() and time.monotonic() < deadline and not has_worked():
            time.sleep(0.01)
        deadline = time.monotonic() + rng.uniform(0, 0.3)
    else:
        deadline = time.monotonic() + rng.uniform(0, 1.2 * typical)
    while process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)


def _has_worked(store: Store, settings: Settings, job_id: str, before: Work) -> bool:
    return any(now > then for now, then in zip(_work_done(store, settings, job_id), before, strict=True))


def _work_done(store: Store, settings: Settings, job_id: str) -> Work:
    """What the job's own work leaves: bytes of answers, when weights were written last, the number of the last row.

    Each grows with the work of an attempt and with nothing else.
    """
    job = store.get_job(job_id)
    out = Path(job.config.get("out") or "-")
    size = out.stat().st_size if out.is_file() else 0
    written = [_changed(path) for path in run_folder(job, settings).glob("*.pt")]
    rows = [row.seq for row in (*store.metrics(job_id), *store.items(job_id))]
    return size, max(written, default=0), max(rows, default=0)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # replaced or forgotten meanwhile
        return 0


# -- comparing
# ----------------------------------------------------------------------------------------------------------------


def trace_of(store: Store, settings: Settings, job_id: str) -> Trace:
    """See Trace. Raises AssertionError where rows are doubled."""
    job = store.get_job(job_id)
    rows, items = store.metrics(job_id), store.items(job_id)
    assert len({row.step for row in rows}) == len(rows), f"{job.name}: a step stands there twice"
    assert len({item.key for item in items}) == len(items), f"{job.name}: an item stands there twice"
    assert len({one.seq for one in (*rows, *items)}) == len(rows) + len(items), f"{job.name}: a number is used twice"
    metrics = sorted((row.step, json.dumps(_timeless(row.values), sort_keys=True)) for row in rows)
    parts = sorted((item.key, json.dumps(_timeless(item.data), sort_keys=True)) for item in items)
    return Trace(
        job.status,
        tuple(f"{step} {text}" for step, text in metrics),
        tuple(f"{key} {text}" for key, text in parts),
        tuple(_files(job.config, settings)),
    )


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if not key.endswith(TIMES) and key not in APART}
        return {key: _timeless(one) for key, one in kept.items()}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


def _files(config: dict[str, Any], settings: Settings) -> list[str]:
    """Hashes of what the job wrote: the answers, or the drafter's weights."""
    out = Path(config.get("out") or "-")
    written = [out] if out.is_file() else [out / "model.safetensors"] if out.is_dir() else []
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in written]


def leftovers(*folders: Path) -> list[str]:
    """Half-written files and locks that nobody cleaned up."""
    names = ("*.partial", "*.tmp", "*.old", "*.claimed", "lock", "*.new")
    return [str(path) for folder in folders for name in names for path in folder.rglob(name)]


def locked_messages(settings: Settings) -> list[str]:
    """Lines of the jobs' logs that speak of a locked database."""
    return [
        line
        for log in settings.jobs.glob("*/log.txt")
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if "locked" in line
    ]
