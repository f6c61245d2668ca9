"""Where trials run: worker processes of this machine that keep the target loaded. (Ray is in sweep_ray.)

An executor takes tasks and gives messages; whose trial was lost with a worker is a message too. It decides nothing and
remembers nothing. Knows processes; no store and no model.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from backend.errors import HeadwayError
from backend.jobs.attendant import ROOT
from backend.jobs.sweep_config import SweepJobConfig
from backend.settings import Settings

Message = dict[str, Any]
FRUITLESS = 3  #: workers in a row that may end before they were ready
END_S = 5.0


@dataclass(frozen=True)
class Task:
    """One trial for a worker; `quality`: its answers are looked at too."""

    number: int
    attempt: int
    settings: dict[str, Any]
    quality: bool

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number, "attempt": self.attempt, "settings": self.settings, "quality": self.quality}


class Executor(Protocol):
    """Messages are those of sweep_worker, and lost {number, attempt, error} for a trial whose worker is gone."""

    def free(self) -> int:
        """How many tasks can be given out now."""
        ...

    def submit(self, task: Task) -> None: ...

    def stop(self, number: int, attempt: int) -> None:
        """Give up a trial; a message says when it is over."""
        ...

    def messages(self, wait_s: float) -> list[Message]:
        """What was said since the last call, waiting a moment for the first. Raises HeadwayError when no worker can be
        had.
        """
        ...

    def close(self) -> None: ...


@dataclass
class _Worker:
    """One process and the task it has."""

    process: subprocess.Popen[str]
    task: Task | None = None
    ready: bool = False
    lost: bool = False
    reason: str = ""
    reader: threading.Thread | None = field(default=None, repr=False)


def order_of(config: SweepJobConfig, settings: Settings, folder: Path, job_id: str | None) -> Message:
    """The first thing a worker is told."""
    return {
        "do": "open",
        "config": config.model_dump(mode="json"),
        "home": str(settings.home),
        "cache": str(settings.cache),
        "folder": str(folder / "trials"),
        "job": job_id,
    }


class LocalExecutor:
    """`workers` processes of this machine, started when there is something to do; a dead one is replaced."""

    def __init__(
        self,
        order: Message,
        workers: int,
        log: Path,
        command: Sequence[str] = (sys.executable, "-m", "backend.jobs.sweep_worker"),
        started: Callable[[int], None] = lambda pid: None,
    ) -> None:
        self._order, self._size, self._log, self._command, self._started = order, workers, log, command, started
        self._workers: list[_Worker] = []
        self._said: queue.Queue[tuple[_Worker, Message | None]] = queue.Queue()
        self._fruitless = 0

    def free(self) -> int:
        return self._size - sum(worker.task is not None for worker in self._workers)

    def submit(self, task: Task) -> None:
        worker = next((one for one in self._workers if one.task is None and not one.lost), None) or self._start()
        worker.task = task
        self._tell(worker, {"do": "trial", "task": task.to_dict()})

    def stop(self, number: int, attempt: int) -> None:
        for worker in self._workers:
            if worker.task is not None and (worker.task.number, worker.task.attempt) == (number, attempt):
                self._tell(worker, {"do": "stop", "number": number, "attempt": attempt})

    def messages(self, wait_s: float) -> list[Message]:
        found: list[Message] = []
        with contextlib.suppress(queue.Empty):
            worker, message = self._said.get(timeout=wait_s)
            while True:
                found += self._heard(worker, message)
                worker, message = self._said.get_nowait()
        return found

    def close(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(OSError):
                if worker.process.stdin is not None:
                    worker.process.stdin.close()
        for worker in self._workers:
            try:
                worker.process.wait(END_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            if worker.reader is not None:
                worker.reader.join(END_S)
            if worker.process.stdout is not None:
                worker.process.stdout.close()
        self._workers = []

    def _start(self) -> _Worker:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, encoding="utf-8", start_new_session=True,
            )  # fmt: skip
        worker = _Worker(process)
        worker.reader = threading.Thread(target=self._read, args=(worker,), daemon=True)
        worker.reader.start()
        self._workers.append(worker)
        self._tell(worker, self._order)
        self._started(process.pid)
        return worker

    def _tell(self, worker: _Worker, message: Message) -> None:
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone; the reader says so
            worker.process.stdin.write(json.dumps(message) + "\n")
            worker.process.stdin.flush()

    def _read(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for line in worker.process.stdout:
            with contextlib.suppress(ValueError):  # a line that was cut by the worker's end
                self._said.put((worker, json.loads(line)))
        self._said.put((worker, None))

    def _heard(self, worker: _Worker, message: Message | None) -> list[Message]:
        if message is None:
            return self._gone(worker)
        if message["say"] == "broken":
            worker.reason = str(message["error"])
            if message["kind"] == "impossible":  # what the person can mend is no accident, so it is not tried again
                raise HeadwayError(worker.reason)
            return []
        if message["say"] == "ready":
            worker.ready, self._fruitless = True, 0
        if message["say"] in ("done", "failed"):
            worker.task = None
        return [message]

    def _gone(self, worker: _Worker) -> list[Message]:
        """A worker has ended: its trial is lost, and after a few that never got ready there will be no more."""
        code = worker.process.wait()
        worker.lost = True
        self._workers.remove(worker)
        for stream in (worker.process.stdin, worker.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._fruitless += not worker.ready
        if self._fruitless >= FRUITLESS:
            why = worker.reason or f"it ended with code {code}"
            raise HeadwayError(f"No worker of the sweep starts: {why}; its log is {self._log}.")
        if worker.task is None:
            return []
        return [{"say": "lost", "number": worker.task.number, "attempt": worker.task.attempt,
                 "error": f"Its worker ended (code {code})."}]  # fmt: skip
