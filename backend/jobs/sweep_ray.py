"""Trials on a Ray cluster: one actor a worker, which keeps the target loaded; Ray only executes.

Ray is an optional package, and its token authentication is on unless RAY_AUTH_MODE says otherwise: a cluster gets the
token that Ray finds (RAY_AUTH_TOKEN, or the file it keeps). Every node needs Headway at the same path and the files a
trial names, as on a shared disk. A trial whose actor or node is gone is lost, and a new actor takes its place; a head
that is gone ends the sweep with a sentence, and resuming it measures the open trials anew. Knows Ray; no store.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backend.errors import HeadwayError
from backend.jobs.attendant import ROOT
from backend.jobs.sweep_executors import FRUITLESS, Message, Task

CONNECT_S = 30.0
ASK_S = 0.05  #: between questions to the actors
HINT = " If it has another token, put that into RAY_AUTH_TOKEN."
AWAY_S = 120.0  #: how long a worker that has spoken may be silent before its trial counts as lost
START_S = 900.0  #: how long a new one may take: a cluster may be busy, and the target has to be loaded


class RayWorker:
    """Lives in an actor: a thread works on trials, the actor's other calls give tasks and fetch what was said."""

    def __init__(self, order: Message) -> None:
        from backend.jobs.sweep_worker import TrialWorker

        self._said: list[Message] = []
        self._lock = threading.Lock()
        self._tasks: list[Message] = []
        self._something = threading.Condition()
        self._worker = TrialWorker(order, self._say)
        threading.Thread(target=self._work, daemon=True).start()

    def give(self, task: Message) -> None:
        with self._something:
            self._tasks.append(task)
            self._something.notify()

    def stop(self, number: int, attempt: int) -> None:
        self._worker.stop(number, attempt)

    def news(self) -> list[Message]:
        with self._lock:
            found, self._said = self._said, []
        return found

    def _say(self, message: Message) -> None:
        with self._lock:
            self._said.append(message)

    def _work(self) -> None:
        if not self._worker.open():
            return
        while True:
            with self._something:
                self._something.wait_for(lambda: bool(self._tasks))
                task = self._tasks.pop(0)
            self._worker.work(task)


@dataclass
class _Actor:
    handle: Any
    heard: float  # when it last answered
    task: Task | None = None
    asked: Any = None  # the question that is on its way
    spoke: bool = False
    ready: bool = False


class RayExecutor:
    """`workers` actors on the cluster at `address`; see sweep_executors.Executor.

    Raises HeadwayError when Ray is not installed or the cluster does not answer.
    """

    def __init__(
        self,
        order: Message,
        workers: int,
        address: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ray, self._order, self._size, self._clock = _connected(address), order, workers, clock
        self._actors: list[_Actor] = []
        self._fruitless = 0

    def free(self) -> int:
        return self._size - sum(actor.task is not None for actor in self._actors)

    def submit(self, task: Task) -> None:
        actor = next((one for one in self._actors if one.task is None), None) or self._start()
        actor.task = task
        actor.handle.give.remote(task.to_dict())

    def stop(self, number: int, attempt: int) -> None:
        for actor in self._actors:
            if actor.task is not None and (actor.task.number, actor.task.attempt) == (number, attempt):
                actor.handle.stop.remote(number, attempt)

    def messages(self, wait_s: float) -> list[Message]:
        found: list[Message] = []
        until = self._clock() + wait_s
        while not found and self._clock() < until:
            for actor in list(self._actors):
                found += self._news_of(actor)
            if not found:
                time.sleep(ASK_S)
        return found + [message for actor in list(self._actors) for message in self._silent(actor)]

    def close(self) -> None:
        for actor in self._actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor.handle)
        self._actors = []
        with contextlib.suppress(Exception):
            self._ray.shutdown()

    def _start(self) -> _Actor:
        environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
        made = self._ray.remote(RayWorker).options(max_concurrency=4, num_cpus=1, runtime_env=environment)
        actor = _Actor(made.remote(self._order), self._clock())
        self._actors.append(actor)
        return actor

    def _news_of(self, actor: _Actor) -> list[Message]:
        if actor.asked is None:
            actor.asked = actor.handle.news.remote()
        try:
            done, _ = self._ray.wait([actor.asked], timeout=0)
            if not done:
                return []
            said = self._ray.get(done[0])
        except self._ray.exceptions.RayError as error:
            return self._gone(actor, error)
        actor.asked = None
        actor.heard, actor.spoke = self._clock(), True
        return [message for one in said for message in self._passed_on(actor, one)]

    def _passed_on(self, actor: _Actor, message: Message) -> list[Message]:
        if message["say"] == "broken":
            raise HeadwayError(str(message["error"]))
        if message["say"] == "ready":
            actor.ready, self._fruitless = True, 0
        if message["say"] in ("done", "failed"):
            actor.task = None
        return [message]

    def _silent(self, actor: _Actor) -> list[Message]:
        """A worker that has not answered for too long counts as gone."""
        away_s = self._clock() - actor.heard
        if not actor.spoke and away_s > START_S:
            raise HeadwayError(
                f"No worker began on the Ray cluster within {START_S / 60:.0f} min; it may have no processor free. "
                "Ask for fewer workers, or resume the sweep later."
            )
        if not actor.spoke or away_s <= AWAY_S:
            return []
        with contextlib.suppress(Exception):
            self._ray.kill(actor.handle)
        return self._gone(actor, TimeoutError("it no longer answers"))

    def _gone(self, actor: _Actor, error: Exception) -> list[Message]:
        """The actor or its node has ended."""
        self._actors.remove(actor)
        self._fruitless += not actor.ready
        if self._fruitless >= FRUITLESS:
            first = (str(error).strip().splitlines() or ["no reason is given"])[0][:200]
            raise HeadwayError(f"No worker starts on the Ray cluster: {first}")
        if actor.task is None:
            return []
        return [{"say": "lost", "number": actor.task.number, "attempt": actor.task.attempt,
                 "error": "Its worker on the Ray cluster ended."}]  # fmt: skip


def _connected(address: str | None) -> Any:
    """The package, connected to the cluster; without an address one is started on this machine."""
    # Clusters ask for a token where this is set on all sides; whoever runs one without tokens has to say so.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ModuleNotFoundError:
        raise HeadwayError(
            "The package ray is not installed here; install it with pip install ray, or use the executor local."
        ) from None
    done: list[Exception | None] = []

    def connect() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
            done.append(None)
        except Exception as error:
            done.append(error)

    thread = threading.Thread(target=connect, daemon=True)  # ray waits much longer than a person does
    thread.start()
    thread.join(CONNECT_S if address else 4 * CONNECT_S)
    if not done:
        raise HeadwayError(f"No Ray cluster answers at {address or 'this machine'}; start it or check --ray-address.")
    if done[0] is not None:
        first = (str(done[0]).strip().splitlines() or [type(done[0]).__name__])[0][:200]
        raise HeadwayError(f"The Ray cluster at {address or 'this machine'} can't be used: {first.rstrip('.')}.{HINT}")
    return ray
