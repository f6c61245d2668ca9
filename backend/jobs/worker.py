"""One job in one process: `python -m backend.jobs.worker --db URL --job ID`.

Leases the job under its own name, writes what it has to say to log.txt in the job's folder, and ends with 0 when the
job ended in the store, whatever way. Knows no kind of job.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from backend.jobs.carry_out import carry_out, on_signals
from backend.jobs.store_context import BEAT_S, PATIENCE_S, StoreContext, patiently
from backend.settings import Settings
from storage import JobRecord, Store, StoreError, owner_token

LOG = "log.txt"
FROM_STDIN = "-"  #: as database: its path or URL is the first line of stdin
NOTHING_TO_DO, STALE, NO_STORE = 75, 76, 77  #: exit codes
GRACE_S = 3.0  #: an older attempt that still lives gets this long to notice


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Work on one job of the queue.")
    parser.add_argument("--db", required=True, help=f"database: path or URL; {FROM_STDIN}: read from stdin")
    parser.add_argument("--job", required=True, help="id of a queued job")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, help="seconds to wait for a database that is away"
    )
    args = parser.parse_args(argv)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    settings = Settings.from_environ()
    database = sys.stdin.readline().strip() if args.db == FROM_STDIN else args.db
    try:
        with patiently(lambda: Store.open(database), args.patience) as store:
            job = patiently(lambda: store.lease_job(owner_token(), job_id=args.job), args.patience)
            if job is None:
                return NOTHING_TO_DO
            speak_to(settings.jobs / job.id / LOG)
            return work(store, job, settings, args.patience)
    except StoreError as error:
        say(str(error))
        return NO_STORE


def work(
    store: Store, job: JobRecord, settings: Settings, patience_s: float = PATIENCE_S, beat_s: float = BEAT_S
) -> int:
    """Carry out a leased job; returns the exit code. Raises StoreError when the store stays away."""
    context = StoreContext(
        store, job, settings, on_stale=lambda: os._exit(STALE), say=say, patience_s=patience_s, beat_s=beat_s
    )
    say(f"{job.name}: attempt {job.attempt}, process {os.getpid()}.")
    with on_signals({signal.SIGTERM: lambda: context.ask("close"), signal.SIGINT: lambda: context.ask("close")}):
        outcome = carry_out(context, GRACE_S)
    say(f"The job is {outcome.status}.")
    return 0


def say(sentence: str) -> None:
    """A line of the log."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sentence}", flush=True)


def speak_to(log: Path) -> None:
    """From here on everything this process prints, libraries' words included, goes to the end of `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
