"""One worker process of a sweep: `python -m backend.jobs.sweep_worker`, spoken to by JSON lines.

In:  {"do": "open", config, home, cache, folder, job} first, then {"do": "trial", task} again and again, {"do": "stop",
number, attempt} at any time. Out: ready {setup}, loading {part, note}, part {prompts, plain_speed}, done {measured},
failed {kind, error}; the last three carry number and attempt. It ends when its input does, so it never outlives
whoever started it. The target stays loaded between trials.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backend.errors import Cancelled, HeadwayError
from backend.settings import Settings
from backend.sweeps.trial import PromptFigures

Message = dict[str, Any]
Say = Callable[[Message], None]
IMPOSSIBLE, FAILED, STOPPED = "impossible", "failed", "stopped"
BROKEN = 3  #: exit code of a worker that could not begin


class TrialWorker:
    """Takes tasks and says what came of them; the same in a process of ours and on a Ray cluster.

    `say` is called from the thread that works; `stop` may be called from any.
    """

    def __init__(self, order: Message, say: Say) -> None:
        self._order, self._say = order, say
        self._stopped: set[tuple[int, int]] = set()
        self._bench: Any = None
        self._held = ExitStack()  # the lease of the worker's own machine, where whoever asks can't have it
        self._alone = True

    def open(self) -> bool:
        """Load the target; False when that can't be, and then it was said why."""
        try:
            from backend.jobs.as_text import validated
            from backend.jobs.sweep_trial import TrialBench

            settings = Settings(Path(self._order["home"]), Path(self._order["cache"]))
            config: Any = validated("sweep", self._order["config"])
            self._bench = TrialBench(config, settings, Path(self._order["folder"]), self._order.get("job"))
            if self._order.get("lease"):
                self._take_lease(config, settings)
            setup = self._bench.open(lambda part, note: self._say({"say": "loading", "part": part, "note": note}))
        except Exception as error:
            self._say({"say": "broken", "error": _sentence(error), "kind": _kind(error)})
            return False
        self._say({"say": "ready", "setup": setup})
        return True

    def _take_lease(self, config: Any, settings: Settings) -> None:
        from backend.engine.lease import try_lease
        from backend.engine.workbench import lease_place

        who = f"sweeping {config.target}"
        taken = try_lease(settings.home, lease_place(config.device), who, "job", self._order.get("job"))
        self._alone = self._held.enter_context(taken) == "held"

    def stop(self, number: int, attempt: int) -> None:
        """The trial ends at its next step."""
        self._stopped.add((number, attempt))

    def work(self, task: Message) -> None:
        """One trial, to its end."""
        who = {"number": task["number"], "attempt": task["attempt"]}
        key = (task["number"], task["attempt"])
        began = time.monotonic()

        def report(prompts: Sequence[PromptFigures], plain_speed: float | None) -> None:
            listed = [asdict(one) for one in prompts]
            self._say({"say": "part", **who, "prompts": listed, "plain_speed": plain_speed})

        try:
            measured = self._bench.measure(
                task["number"], task["settings"], task["quality"], report, lambda: key in self._stopped
            )
        except Exception as error:
            self._say({"say": "failed", **who, "kind": _kind(error), "error": _sentence(error)})
            return
        wall_s = round(time.monotonic() - began, 4)
        found = asdict(measured) | ({"contended": not self._alone} if self._order.get("lease") else {})
        self._say({"say": "done", **who, "measured": found, "wall_s": wall_s})


def _kind(error: Exception) -> str:
    if isinstance(error, Cancelled):
        return STOPPED
    return IMPOSSIBLE if isinstance(error, HeadwayError) else FAILED


def _sentence(error: Exception) -> str:
    if isinstance(error, HeadwayError):
        return str(error)
    print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
    first = (str(error).strip().splitlines() or ["no message"])[0][:200]
    return f"The trial failed inside ({type(error).__name__}: {first}); the worker's log has the details."


def main() -> int:
    """Speaks over what was stdout; everything that libraries print goes to the log instead."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(message: Message) -> None:
        with lock, suppress(BrokenPipeError):
            out.write(json.dumps(message) + "\n")
            out.flush()

    first = json.loads(sys.stdin.readline() or "{}")
    if first.get("do") != "open":
        return BROKEN
    worker = TrialWorker(first, say)
    tasks: queue.Queue[Message] = queue.Queue()
    threading.Thread(target=_listen, args=(worker, tasks), daemon=True).start()
    if not worker.open():
        return BROKEN
    while True:
        worker.work(tasks.get())


def _listen(worker: TrialWorker, tasks: queue.Queue[Message]) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "trial":
            tasks.put(message["task"])
        elif message["do"] == "stop":
            worker.stop(message["number"], message["attempt"])
    os._exit(0)  # nobody listens any more


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.exit(main())
