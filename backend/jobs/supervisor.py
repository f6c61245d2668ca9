"""Sees to it that queued jobs are worked on: one worker process a device, watched until it ends.

A thread looks at the queue; each job it takes gets an attendant thread, which asks the gate for the device (the engine
finishes its run and unloads), starts the worker, watches it, and gives the device back. A worker that dies is noticed
at once, one that no longer beats after a minute of this process's own clock: wall clocks jump and laptops sleep, so no
stored time is ever compared. Jobs that run without us, started on a command line or by an earlier supervisor, are
watched the same way while their process is one of this machine. Knows processes, the store and the gate; no kind of
job, no torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from backend.jobs.attendant import Attendant, Launch, popen_worker
from backend.jobs.kinds import COMMAND_TAG, JOB_KINDS
from backend.jobs.steady import SteadyClock
from backend.settings import Settings
from storage import JobRecord, Store, StoreError, owner_is_alive
from storage.owner import owner_token

TICK_S = 0.5
HUNG_S = 60.0
CLOSE_S = 30.0
BESIDE = "beside"  #: place of a job that needs no device


class Gate(Protocol):
    """Whoever has the device when no job does."""

    def lend(self, holder: Callable[[], str], job: str | None = None) -> AbstractContextManager[None]:
        """Free the device and keep away from it while the context is open; `holder()` says in a few words who has it
        now, `job` is that job's id.
        """
        ...


class OpenGate:
    """A gate for a device that nobody else uses."""

    def lend(self, holder: Callable[[], str], job: str | None = None) -> AbstractContextManager[None]:
        return nullcontext()


class Supervisor:
    """`start()` it, `close()` it: then running workers save, and their jobs are queued again, at the front.

    Args:
        store_url: path or URL of the database; the workers open the same one.
        gate: lends the engine's device.
        device: the engine's device; jobs for "auto" or for it take turns on it, others run beside. Default: the one
            that the gate says it lends.
        clock: seconds; it may jump, see SteadyClock.
        launch: starts a worker; a test hands in its own.
    """

    def __init__(
        self,
        store_url: str,
        settings: Settings,
        gate: Gate | None = None,
        *,
        device: str | None = None,
        hung_s: float = HUNG_S,
        tick_s: float = TICK_S,
        clock: Callable[[], float] = time.monotonic,
        launch: Launch = popen_worker,
    ) -> None:
        self._url, self._settings, self._gate = store_url, settings, gate or OpenGate()
        lent: str = getattr(gate, "place", "auto")
        self._device = device or lent
        self._hung_s, self._tick_s, self._clock, self._launch = hung_s, tick_s, SteadyClock(clock), launch
        self._store = Store.open(store_url)
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._attended: dict[str, Attendant] = {}  # by device
        self._thread = threading.Thread(target=self._work, name="headway-supervisor", daemon=True)

    def start(self) -> None:
        """Mark the jobs of dead processes interrupted, then take up the queue."""
        self._store.interrupt_dead_jobs(owner_is_alive)
        self._thread.start()

    def wake(self) -> None:
        """Look at the queue now instead of at the next tick."""
        self._wake.set()

    def running(self) -> list[str]:
        """Ids of the jobs that are attended now."""
        with self._lock:
            return [attendant.job_id for attendant in self._attended.values()]

    def close(self, grace_s: float = CLOSE_S) -> None:
        """Ask the workers to save, wait, kill what is left after `grace_s`; their jobs go back to the queue's front."""
        self._closing.set()
        self._wake.set()
        with self._lock:
            attended = list(self._attended.values())
        for attendant in attended:
            attendant.close(grace_s)
        if self._thread.is_alive():
            self._thread.join(timeout=grace_s)
        for attendant in attended:
            attendant.join(grace_s + 10)
        self._store.close()

    def __enter__(self) -> Supervisor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread
    # -------------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closing.is_set():
            with suppress(StoreError):  # a database that is away now may be there at the next tick
                self._look()
            self._wake.wait(self._tick_s)
            self._wake.clear()

    def _look(self) -> None:
        with self._lock:
            self._attended = {device: one for device, one in self._attended.items() if one.is_alive()}
            known = {attendant.job_id for attendant in self._attended.values()}
        for job in self._store.list_jobs(statuses=["running"], limit=1000):
            if job.id not in known:
                self._adopt(job)
        for job in self._store.list_jobs(statuses=["queued"], order="queue", limit=1000):
            if job.attempt == 0 and COMMAND_TAG in job.tags:
                continue  # the command that has just made it is about to work on it itself
            device = self._place(job)
            if device not in self._attended and not self._closing.is_set():
                self._attend(device, job, adopted=False)

    def _adopt(self, job: JobRecord) -> None:
        """A running job that nobody here attends: end it in the store when its process is dead, else watch it."""
        if job.owner is None or not owner_is_alive(job.owner):
            with suppress(StoreError):
                reason = "The process that worked on this job ended before it did; resume it to go on."
                self._store.interrupt_job(job.id, job.attempt, reason)
        elif is_local(job.owner) and self._place(job) not in self._attended:
            self._attend(self._place(job), job, adopted=True)

    def _attend(self, device: str, job: JobRecord, adopted: bool) -> None:
        lends = device == "auto"
        attendant = Attendant(
            job,
            store=self._store,
            command=self._command(job),
            settings=self._settings,
            gate=self._gate if lends else OpenGate(),
            adopted=adopted,
            hung_s=self._hung_s,
            clock=self._clock,
            launch=self._launch,
            done=self._wake.set,
        )
        with self._lock:
            self._attended[device] = attendant
        attendant.start()

    def _place(self, job: JobRecord) -> str:
        """Jobs of one place take turns; "auto" stands for the engine's own device. Jobs that only ask a
        server which runs anyway are in nobody's way but each other's.
        """
        kind = JOB_KINDS.get(job.kind)
        if kind is not None and not kind.needs_device(job.config):
            return f"{BESIDE} {job.config.get(kind.beside)} {job.kind}"
        own, asked = self._device.removesuffix(":0"), job.device.removesuffix(":0")
        return "auto" if asked in ("auto", own) or own in ("auto", "cpu") else asked

    def _command(self, job: JobRecord) -> Sequence[str]:
        return ("--db", self._url, "--job", job.id)


def is_local(token: str) -> bool:
    """Whether an owner token names a process of this machine."""
    return token.rsplit("/", 2)[0] == owner_token().rsplit("/", 2)[0]
