"""`jobs`: what is queued, running and over, and the levers: stop, pause, resume, log. Knows the store and no kind of
job.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.console import say
from backend.jobs.worker import LOG
from backend.settings import Settings
from storage import JobRecord, Store, owner_is_alive

HEAD = ("id", "status", "kind", "when", "progress", "name")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", default="list", choices=("list", "show", "stop", "pause", "resume", "log", "delete")
    )
    parser.add_argument("job", nargs="?", metavar="ID", help="a job's id; `list` takes none")
    parser.add_argument("--status", help="list: only jobs in this state")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="list: newest N jobs (default 20)")
    parser.add_argument("--front", action="store_true", help="resume: before all others in the queue")
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    parser.add_argument("--json", action="store_true", help="one JSON object a job on stdout")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do what is asked; raises StoreError for an unknown id or a state in which it can't be done."""
    if args.limit < 1:
        raise HeadwayError(f"--limit must be at least 1, but it is {args.limit}.")
    if args.action != "list" and not args.job:
        raise HeadwayError(f"Name the job: `jobs {args.action} ID`; `jobs list` shows the ids.")
    with Store.open(args.db or settings.database) as store:
        store.interrupt_dead_jobs(owner_is_alive)
        if args.action == "list":
            _list(store, args)
        elif args.action == "log":
            _log(store, settings, args.job)
        else:
            _act(store, args)
    return 0


def _list(store: Store, args: argparse.Namespace) -> None:
    jobs = store.list_jobs(statuses=[args.status] if args.status else None, limit=args.limit)
    if args.json:
        for job in jobs:
            print(json.dumps(asdict(job), ensure_ascii=False, default=str))
        return
    if not jobs:
        print("No jobs yet: start one with `distill`, `train` or `evaluate`, or on a page.")
        return
    rows = [HEAD, *map(_row, jobs)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True)]
        print("  ".join([*cells, row[5]]).rstrip())


def _log(store: Store, settings: Settings, job_id: str) -> None:
    job = store.get_job(job_id)
    path = settings.jobs / job.id / LOG
    if not path.is_file():
        raise HeadwayError(f"Job {job.id} has no log yet.")
    print(path.read_text(encoding="utf-8", errors="replace"), end="")


def _act(store: Store, args: argparse.Namespace) -> None:
    actions: dict[str, Callable[[], None]] = {
        "stop": lambda: store.request_job(args.job, "stop"),
        "pause": lambda: store.request_job(args.job, "pause"),
        "resume": lambda: store.resume_job(args.job, front=args.front),
        "delete": lambda: store.delete_job(args.job),
        "show": lambda: None,
    }
    actions[args.action]()
    if args.action == "delete":
        say(f"Job {args.job} is deleted; what it wrote elsewhere stays.")
        return
    job = store.get_job(args.job)
    if args.json or args.action == "show":
        print(json.dumps(asdict(job), ensure_ascii=False, default=str, indent=None if args.json else 2))
    elif args.action == "resume":
        say(f"Job {job.id} is queued; a running dashboard takes it up.")
    else:
        asked = f"asked to {job.requested}" if job.requested else job.status
        say(f"Job {job.id} is {asked}.")


def _row(job: JobRecord) -> tuple[str, ...]:
    # Until it is leased again, a queued job still carries what ended its last attempt.
    name = f"{job.name}: {job.error}" if job.error and job.status in ("failed", "interrupted") else job.name
    return (job.id, job.status, job.kind, job.created_at.astimezone().strftime("%Y-%m-%d %H:%M"), _far(job), name)


def _far(job: JobRecord) -> str:
    progress: dict[str, Any] = job.progress or {}
    if not progress.get("total"):
        return ""
    text = f"{100 * progress['done'] / progress['total']:.0f} %"
    left = progress.get("left_s")
    return f"{text}, {left / 60:.0f} min left" if left and job.status == "running" else text
