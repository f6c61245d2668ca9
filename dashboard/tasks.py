"""Short work that a page waits for: counting a file, comparing two. It runs beside the requests and says how far it is.

Kept in memory only: such work is done in seconds to minutes and can be asked for again. Everything longer is a job.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backend.errors import Cancelled
from dashboard.runs import one_sentence
from storage.errors import NotFoundError

KEPT = 100
Progress = Callable[[float, float], None]  # (done, total); raises Cancelled when nobody wants the result


@dataclass
class Task:
    """One piece of work. `state` is running, done, failed or cancelled; `result` is JSON."""

    id: str
    state: str = "running"
    done: float = 0
    total: float = 0
    result: Any = None
    error: str | None = None
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        fraction = min(1.0, self.done / self.total) if self.total else None
        return {"id": self.id, "state": self.state, "fraction": fraction, "result": self.result, "error": self.error}


class Tasks:
    """At most `threads` at a time; the last KEPT are remembered."""

    def __init__(self, threads: int = 2) -> None:
        self._turn = threading.Semaphore(threads)
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, work: Callable[[Progress], Any]) -> str:
        """Begin `work(progress)` and return the task's id."""
        task = Task(uuid.uuid4().hex)
        with self._lock:
            self._tasks[task.id] = task
            for old in [one for one in self._tasks.values() if one.state != "running"][: len(self._tasks) - KEPT]:
                del self._tasks[old.id]
        # Daemons: the program may end while a file is being counted.
        threading.Thread(target=self._run, args=(task, work), name="page-task", daemon=True).start()
        return task.id

    def get(self, task_id: str) -> Task:
        """Raises NotFoundError for one that is not remembered."""
        with self._lock:
            task = self._tasks.get(task_id)
        if task is None:
            raise NotFoundError("That work is no longer known here; ask for it again.")
        return task

    def cancel(self, task_id: str) -> None:
        """The work ends at its next progress."""
        self.get(task_id).stopped.set()

    def _run(self, task: Task, work: Callable[[Progress], Any]) -> None:
        def progress(done: float, total: float) -> None:
            task.done, task.total = done, total
            if task.stopped.is_set():
                raise Cancelled("Stopped.")

        with self._turn:
            try:
                progress(0, 0)
                task.result = work(progress)
                task.state = "done"
            except Cancelled:
                task.state = "cancelled"
            except Exception as error:
                task.error = one_sentence(error)
                task.state = "failed"
