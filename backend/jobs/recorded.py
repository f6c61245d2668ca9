"""A job that a person runs on the command line: shown in the terminal and, unless `--no-store`, recorded as a job too,
so that the dashboard sees it and can stop it.

The same command after a kill goes on with the same job. Knows no kind of job.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from backend.errors import Cancelled, HeadwayError
from backend.jobs.as_text import config_of
from backend.jobs.carry_out import carry_out, on_signals
from backend.jobs.console import say
from backend.jobs.context import ConsoleContext
from backend.jobs.fork import start_of
from backend.jobs.kinds import COMMAND_TAG, JOB_KINDS
from backend.jobs.store_context import StoreContext
from backend.jobs.worker import GRACE_S, LOG, STALE
from backend.settings import Settings
from storage import JobRecord, Store, StoreError, owner_is_alive, owner_token
from storage.job_records import JobStatus

RESUMABLE: tuple[JobStatus, ...] = ("paused", "interrupted", "stopped", "failed")


class Stopped(HeadwayError):
    """The job did not finish because somebody asked it to stop; `code` is the exit code."""

    code = 130


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the job is recorded, and `--json`."""
    parser.add_argument("--db", metavar="PATH_OR_URL", help="database; default: runs.db in Headway's home folder")
    parser.add_argument("--no-store", action="store_true", help="remember nothing; the dashboard does not see the job")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end and no progress")


def run_command(
    kind: str, config: BaseModel, args: argparse.Namespace, settings: Settings, work: Path | None = None
) -> dict[str, Any]:
    """The job's result. `work`: the job's own folder where nothing is recorded; default: a temporary one.

    Raises HeadwayError for anything the person can mend, Stopped when the job was asked to stop.
    """
    if args.no_store:
        return _unrecorded(kind, config, args, settings, work)
    with Store.open(args.db or settings.database) as store:
        job = obtain(store, kind, config)
        return _recorded(store, job, args.json, settings)


def run_and_read(
    kind: str, args: argparse.Namespace, settings: Settings, file: str
) -> tuple[BaseModel, dict[str, Any], dict[str, Any]]:
    """(config, result, JSON of the file that the result names under `file`) of the job that the arguments describe.

    Raises as run_command does.
    """
    config = config_of(kind, args)
    with tempfile.TemporaryDirectory() as work:  # a job that nothing records has its folder here
        done = run_command(kind, config, args, settings, Path(work))
        found: dict[str, Any] = json.loads(Path(done[file]).read_text(encoding="utf-8"))
    return config, done, found


def obtain(store: Store, kind: str, config: BaseModel, parent_id: str | None = None) -> JobRecord:
    """A job for this config that is this process's: an earlier one that did not finish, or a new one.

    Raises StoreError when another open job writes to the same place.
    """
    job_kind = JOB_KINDS[kind]
    config = job_kind.settled(config)
    data, exclusive = config.model_dump(mode="json"), job_kind.exclusive(config)
    store.interrupt_dead_jobs(owner_is_alive)
    if exclusive is not None:
        for job in store.list_jobs(kinds=[kind], statuses=RESUMABLE):
            if job.exclusive == exclusive and job.config == data:
                store.resume_job(job.id)
                return _leased(store, job.id)
    made = store.create_job(
        kind=kind,
        name=job_kind.summary(config),
        config=data,
        device=getattr(config, "device", None) or "auto",
        exclusive=exclusive,
        parent_id=parent_id or _parent(store, config),
        tags=[COMMAND_TAG],
    )
    return _leased(store, made.id)


def _parent(store: Store, config: BaseModel) -> str | None:
    """The job that this one starts from, where it names one."""
    start = getattr(config, "start_from", None)
    try:
        return store.get_job(start_of(start)[0]).id if start else None
    except StoreError:
        return None


def _leased(store: Store, job_id: str) -> JobRecord:
    job = store.lease_job(owner_token(), job_id=job_id)
    if job is None:  # a running dashboard took it out of the queue first
        raise HeadwayError(f"Job {job_id} was taken by another worker; look at it with `jobs show {job_id}`.")
    return job


def _recorded(store: Store, job: JobRecord, quiet: bool, settings: Settings) -> dict[str, Any]:
    console = ConsoleContext(settings, settings.jobs / job.id, quiet)
    log = settings.jobs / job.id / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:

        def note(sentence: str) -> None:
            print(sentence, file=file, flush=True)

        def tell(sentence: str) -> None:
            note(sentence)
            console.log(sentence)

        def stale() -> None:
            say(f"Another process has taken over job {job.id}; this one ends.")
            os._exit(STALE)

        context = StoreContext(store, job, settings, on_stale=stale, say=tell, show=console.progress)
        with on_signals(_stop_signals(lambda: context.ask("close"))):
            outcome = carry_out(context, GRACE_S, complain=note)  # whoever called us is told by what is raised below
        console.close()
    if outcome.status == "finished":
        return outcome.result or {}
    if isinstance(outcome.failure, HeadwayError) or outcome.failure is None:
        if outcome.status == "failed":
            raise outcome.failure or HeadwayError(outcome.error or "The job failed.")
        raise Stopped(f"The job {job.id} is {outcome.status}; the same command goes on where it stopped.")
    if isinstance(outcome.failure, KeyboardInterrupt):
        raise outcome.failure
    raise HeadwayError(f"{outcome.error} (The log is {log}.)") from outcome.failure


def _unrecorded(
    kind: str, config: BaseModel, args: argparse.Namespace, settings: Settings, work: Path | None
) -> dict[str, Any]:
    wishes: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        context = ConsoleContext(settings, work or Path(temporary), args.json, stopped=lambda: bool(wishes))
        try:
            with on_signals(_stop_signals(lambda: wishes.append("stop"))):
                return JOB_KINDS[kind].run(config, context)
        except Cancelled as error:
            raise Stopped(f"{error} The same command goes on where it stopped.") from None
        finally:
            context.close()


def _stop_signals(ask: Callable[[], None]) -> Mapping[int, Callable[[], None]]:
    """The first Ctrl-C asks for an orderly end, the second one ends at once."""
    asked: list[bool] = []

    def wish() -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)
        say("Stopping as soon as the work is saved; press Ctrl-C again to stop at once.")
        ask()

    return {signal.SIGINT: wish, signal.SIGTERM: wish}
