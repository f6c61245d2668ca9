"""`python -m backend.engine.process`: the process that owns a device, started by whoever shows the dashboard.

It is told on its standard input what to do, in one line of JSON, and ends in order when that input ends: the one who
started it has closed, or is dead. It answers on its standard output, one JSON object a line: {"say": sentence} while it
starts, then {"ready": address}, {"taken": true} when another process is this engine already, or {"error": ...}. Knows
by name only what runs beside the engine, since that may know more than the engine does.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from backend.engine import wire
from backend.engine.launch import Launch, claim, published
from backend.engine.server import EngineServer
from backend.errors import HeadwayError
from storage import Store, StoreError

CANCEL_S = 3.0  #: what a run gets to stop; one that is still loading is left behind
CHECKPOINT_S = 60.0  #: what jobs get to write their checkpoint
Say = Callable[[dict[str, Any]], None]


class Beside(Protocol):
    """What runs in this process beside the engine."""

    def start(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


def main() -> int:
    """Run until told to stop; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s engine: %(message)s")
    say = _take_stdout()
    told = json.loads(sys.stdin.buffer.readline())
    launch, key = Launch.from_dict(told["launch"]), bytes.fromhex(told["key"])
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: stop.set())
    threading.Thread(target=_watch_input, args=(stop,), name="headway-parent", daemon=True).start()
    with claim(launch) as claimed:
        if not claimed:
            say({"taken": True})
            return 0
        try:
            _serve(launch, key, stop, say)
        except (HeadwayError, StoreError) as error:
            say(wire.error_message(error))
            return 2
    return 0


def _serve(launch: Launch, key: bytes, stop: threading.Event, say: Say) -> None:
    say({"say": "Loading PyTorch."})
    from backend.engine.service import LocalEngine  # seconds, which one that finds its place taken need not spend

    with Store.open(launch.store) as store:
        engine = LocalEngine(launch.settings, store, launch.device, launch.dtype, launch.trust_remote_code)
        beside = _beside(launch, engine)
        server = None
        try:
            if beside is not None:
                beside.start()
            server = EngineServer(engine, wire.Door(key), beside.wake if beside else lambda: None)
            with published(launch, server.address):
                say({"ready": server.address.to_dict()})
                stop.wait()
        finally:
            _end(engine, server, beside)


def _end(engine: Any, server: EngineServer | None, beside: Beside | None) -> None:
    """In order, and at the same time where one need not wait for the other: jobs write checkpoints, runs stop, their
    readers hear the end.
    """
    ending = threading.Thread(target=beside.close if beside else lambda: None, daemon=True)
    ending.start()
    engine.close(CANCEL_S)
    if server is not None:
        server.close()
    ending.join(CHECKPOINT_S)


def _beside(launch: Launch, engine: Any) -> Beside | None:
    if launch.beside is None:
        return None
    module, _, name = launch.beside.partition(":")
    made: Beside = getattr(importlib.import_module(module), name)(launch.store, launch.settings, engine)
    return made


def _watch_input(stop: threading.Event) -> None:
    with suppress(OSError, ValueError):
        while sys.stdin.buffer.read(1):
            pass
    stop.set()


def _take_stdout() -> Say:
    """Standard output for our lines only: whatever libraries print goes to standard error."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody listens any more; the end of the input will say so
            ours.write(json.dumps(line) + "\n")
            ours.flush()

    return say


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # threads that are still loading a target would be waited for, or crash while Python ends
