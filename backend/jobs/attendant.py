"""One job's attendant: gets the device, starts the worker, watches process and beat, and says in the store how it ended
when the worker can't.

Knows one job, its process and the store.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from backend.errors import HeadwayError
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.locks import end_process
from backend.jobs.store_context import BEAT_S
from backend.jobs.worker import FROM_STDIN, LOG, NO_STORE, NOTHING_TO_DO, STALE
from backend.settings import Settings
from storage import JobRecord, Store, StoreError, owner_is_alive
from storage.errors import NotFoundError
from storage.job_records import JobEnd
from storage.owner import owner_token

ROOT = Path(__file__).resolve().parents[2]
LOOK_S = 0.2  #: between looks at the process
NO_STORE_PAUSE_S = 10.0
BEAT_LOOK_S = 1.0  #: between looks at the job in the store


class Process(Protocol):
    """What is needed of a started worker; subprocess.Popen is one."""

    pid: int

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


Launch = Callable[[Sequence[str], Settings, str], Process]


class _Gate(Protocol):
    def lend(self, holder: Callable[[], str], job: str | None = None) -> AbstractContextManager[None]: ...


def popen_worker(arguments: Sequence[str], settings: Settings, job_id: str) -> Process:
    """A worker in a session of its own: a Ctrl-C meant for us does not reach it, we tell it in our own time.

    The database goes in by stdin: its URL may hold a password, and everybody can read the arguments of a process.
    """
    listed = list(arguments)
    place = listed.index("--db") + 1
    database, listed[place] = listed[place], FROM_STDIN
    folder = settings.jobs / job_id
    folder.mkdir(parents=True, exist_ok=True)
    places = {
        "HEADWAY_HOME": str(settings.home),
        "HEADWAY_CACHE": str(settings.cache),
        "HEADWAY_VLLM": str(settings.vllm or ""),
    }
    # The worker works where we do, so that relative paths mean the same, and finds the code wherever that is.
    modules = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environ = {**os.environ, **places, "PYTHONPATH": modules}
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "backend.jobs.worker", *listed],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stdin:  # one that died at once says so in its log
        stdin.write(database.encode() + b"\n")
    return process


class Attendant:
    """A thread for one job; `adopted`: the job already runs in a process that is not ours."""

    def __init__(
        self,
        job: JobRecord,
        *,
        store: Store,
        command: Sequence[str],
        settings: Settings,
        gate: _Gate,
        adopted: bool,
        hung_s: float,
        clock: Callable[[], float],
        launch: Launch,
        done: Callable[[], None],
    ) -> None:
        self.job_id = job.id
        self._job, self._store, self._command, self._settings, self._gate = job, store, command, settings, gate
        self._adopted, self._hung_s, self._clock, self._launch, self._done = adopted, hung_s, clock, launch, done
        self._process: Process | None = None
        self._closing = threading.Event()
        self._kill_at: float | None = None
        self._seen: tuple[int, int, float] | None = None  # attempt, beat, when it was new
        self._thread = threading.Thread(target=self._work, name=f"headway-job-{job.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout=timeout_s)

    def close(self, grace_s: float) -> None:
        """Ask our worker to save and end, and kill it after `grace_s`; a process that is not ours is left alone."""
        self._kill_at = self._clock() + grace_s
        self._closing.set()

    def holder(self) -> str:
        """Who has the device, in a few words: what it does and how long it will take yet."""
        kind = JOB_KINDS.get(self._job.kind)
        who = f"{kind.doing} {self._job.name.removeprefix(f'{kind.title} ')}" if kind is not None else self._job.name
        left = (self._job.progress or {}).get("left_s")
        return f"{who}, {f'{left / 60:.0f} min' if left >= 90 else f'{left:.0f} s'} left" if left else who

    # -- the thread
    # -------------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with self._gate.lend(self.holder, self.job_id):
                if self._adopted:
                    self._watch_adopted()
                elif self._still_queued():
                    self._process = self._launch(self._command, self._settings, self.job_id)
                    self._watch(self._process)
        except (StoreError, HeadwayError, OSError) as error:
            print(f"Job {self.job_id} could not be attended: {error}", file=sys.stderr, flush=True)
            if isinstance(error, OSError):
                reason = f"The worker could not be started ({error.strerror or error}); resume the job to try again."
                self._end_queued("failed", reason)
        finally:
            self._done()

    def _still_queued(self) -> bool:
        """The gate may have taken a while; whoever stopped the job or closed us meanwhile is heard."""
        return not self._closing.is_set() and self._store.get_job(self.job_id).status == "queued"

    def _watch(self, process: Process) -> None:
        looked = asked = False
        next_look = self._clock()
        while (code := process.poll()) is None:
            if self._closing.is_set() and not asked:
                process.terminate()
                asked = True
            if self._kill_at is not None and self._clock() > self._kill_at:
                process.kill()
            if self._clock() >= next_look:
                looked = self._look()
                next_look = self._clock() + BEAT_LOOK_S
            if looked and self._is_hung():
                process.kill()
                self._interrupt(f"The worker gave no sign of life for {self._hung_s:.0f} s and was ended; resume it.")
            time.sleep(LOOK_S)
        self._after(code)

    def _watch_adopted(self) -> None:
        attempt = self._job.attempt
        while not self._closing.is_set():
            alive = self._job.owner is not None and owner_is_alive(self._job.owner)
            looked = self._look()
            if looked and (self._job.status != "running" or self._job.attempt != attempt):
                return
            if not alive:
                self._interrupt("The process that worked on this job ended before it did; resume it to go on.")
                return
            if looked and self._is_hung():
                end_process(self._job.owner)
                self._interrupt(f"The worker gave no sign of life for {self._hung_s:.0f} s and was ended; resume it.")
                return
            self._closing.wait(BEAT_LOOK_S)

    def _look(self) -> bool:
        """Read the job; False while the store is away, and then nobody is called hung for not having written."""
        try:
            self._job = self._store.get_job(self.job_id)
        except NotFoundError:
            self._closing.set()
            return False
        except StoreError:
            self._seen = None
            return False
        if self._seen is None or self._seen[:2] != (self._job.attempt, self._job.beat):
            self._seen = (self._job.attempt, self._job.beat, self._clock())
        return True

    def _is_hung(self) -> bool:
        """No beat for too long, although the database takes writes: another one's long write also keeps beats away."""
        if self._job.status != "running" or self._seen is None or self._clock() - self._seen[2] <= self._hung_s:
            return False
        before = self._seen[:2]
        try:
            self._store.annotate_job(self.job_id)  # changes nothing, but waits for its turn to write
        except StoreError:
            self._seen = None
            return False
        time.sleep(2 * BEAT_S)
        return self._look() and self._seen is not None and self._seen[:2] == before

    def _after(self, code: int) -> None:
        """The worker has ended: make the store say something true about its job."""
        if code in (NOTHING_TO_DO, STALE):
            return
        job = self._patient_job()
        if job.status == "running" and job.owner is not None and not owner_is_alive(job.owner):
            self._interrupt(_why(code))
        elif job.status == "queued" and code != 0 and not self._closing.is_set():
            self._never_taken(code)  # with 0 it did its part, and the job was resumed before the process was gone
        if self._closing.is_set() and self._patient_job().status == "interrupted":
            self._store.resume_job(self.job_id, front=True)

    def _patient_job(self) -> JobRecord:
        """The job, waited for a while if the store is away. Raises StoreError."""
        for _ in range(600):
            with suppress(StoreError):
                return self._store.get_job(self.job_id)
            if self._closing.wait(LOOK_S):
                break
        return self._store.get_job(self.job_id)

    def _interrupt(self, reason: str) -> None:
        job = self._patient_job()
        if job.status == "running":
            with suppress(StoreError):  # it ended by itself after all
                self._store.interrupt_job(job.id, job.attempt, reason)

    def _never_taken(self, code: int) -> None:
        """The worker ended before it took the job: started again and again it would do the same, so the job ends."""
        if code == NO_STORE:
            self._closing.wait(NO_STORE_PAUSE_S)  # it waited long enough for the database; let another one try
        elif code < 0:
            self._end_queued("interrupted", _why(code))
        else:
            self._end_queued(
                "failed", f"The worker did not start (exit code {code}); its log says why: {self._last_words()}"
            )

    def _end_queued(self, status: JobEnd, reason: str) -> None:
        with suppress(StoreError):
            job = self._store.lease_job(owner_token(), job_id=self.job_id)
            if job is not None:
                self._store.end_job(job.id, job.attempt, status, error=reason)

    def _last_words(self) -> str:
        try:
            text = (self._settings.jobs / self.job_id / LOG).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "there is none"
        lines = text.strip().splitlines()
        return lines[-1][:300] if lines else "it is empty"


def _why(code: int) -> str:
    if code >= 0:
        return f"The worker ended with exit code {code} before the job did; resume it to go on."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    extra = ", perhaps by the system because memory ran out" if -code == signal.SIGKILL else ""
    return f"The worker was ended from outside ({name}{extra}); resume the job to go on where it was."
