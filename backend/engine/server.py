"""Answers other processes' calls with an engine: the far side of `remote.RemoteEngine`.

One thread for each connection, one call a connection. Knows the engine's interface and the wire, no model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any, Protocol

from backend.engine import wire
from backend.engine.protocol import DecodeRequest, Engine, Event, RaceRequest

log = logging.getLogger(__name__)
LAST_WORDS_S = 1.0  #: how long streams may take to say what came last when the server closes


class ServedEngine(Engine, Protocol):
    """An engine that hands over events as many as there are, and notices readers that left."""

    def batches(
        self, run_id: str, after: int, timeout_s: float | None, gone: Callable[[], bool]
    ) -> Iterator[list[Event]]: ...


class EngineServer:
    """Serves until closed. `poke`: called when somebody says that there is new work in the queue of jobs."""

    def __init__(self, engine: ServedEngine, door: wire.Door, poke: Callable[[], None] = lambda: None) -> None:
        self._engine, self._door = engine, door
        self.address = door.address
        self._calls: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "submit": lambda given: engine.submit(DecodeRequest.model_validate(given["request"])),
            "race": lambda given: asdict(engine.race(RaceRequest.model_validate(given["request"]))),
            "cancel": lambda given: engine.cancel(given["run_id"]),
            "share": lambda given: engine.share(given["run_id"]),
            "status": lambda given: asdict(engine.status()),
            "drafters": lambda given: engine.drafters(given["target"]),
            "machine": lambda given: engine.machine(),
            "poke": lambda given: poke(),
        }
        self._talking = 0
        self._changed = threading.Condition()
        self._closed = False
        self._porter = threading.Thread(target=self._accept, name="headway-door", daemon=True)
        self._porter.start()

    def close(self) -> None:
        """No new callers; those who listen to something hear its end."""
        self._closed = True
        self._door.knock()  # closing alone would not wake the thread that waits there
        self._porter.join(LAST_WORDS_S)
        with self._changed:
            self._changed.wait_for(lambda: self._talking == 0, LAST_WORDS_S)
        self._door.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._door.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.05)  # too many open files: others will hang up
                continue
            if self._closed:
                connection.close()
                return
            threading.Thread(target=self._talk, args=(connection,), name="headway-caller", daemon=True).start()

    def _talk(self, connection: Connection) -> None:
        with self._changed:
            self._talking += 1
        try:
            with connection:
                if self._door.admit(connection):
                    self._answer(connection, wire.receive(connection, wire.MAX_REQUEST_BYTES))
        except wire.BROKEN:
            pass  # the caller hung up
        except Exception:
            log.exception("a call to the engine failed")
        finally:
            with self._changed:
                self._talking -= 1
                self._changed.notify_all()

    def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        name, given = str(message.get("call")), message.get("arguments", {})
        try:
            if name == "presence":  # told by the connection itself: it lasts as long as this process
                wire.send(connection, {"open": True})
                self._stay(connection)
            elif name == "events":
                self._stream(connection, **given)
            elif name in self._calls:
                wire.send(connection, {"value": self._calls[name](given)})
            else:
                raise ValueError(f"there is no call {name!r}")
        except wire.BROKEN:
            raise
        except Exception as error:
            reply = wire.error_message(error)
            if not reply["error"]["kind"]:
                log.exception("the call %s failed", name)
            wire.send(connection, reply)

    def _stream(self, connection: Connection, run_id: str, after: int, timeout_s: float | None) -> None:
        found = self._engine.batches(run_id, after, timeout_s, lambda: wire.is_gone(connection))
        wire.send(connection, {"open": True})
        for batch in found:
            wire.send(connection, {"items": [[event.seq, event.kind, event.data] for event in batch]})
        wire.send(connection, {"end": True})

    def _stay(self, connection: Connection) -> None:
        with self._changed:
            self._talking -= 1  # nothing more is said here, so closing need not wait for it
        try:
            while not wire.is_gone(connection) and not self._closed:
                time.sleep(0.2)
        finally:
            with self._changed:
                self._talking += 1
