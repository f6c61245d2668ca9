"""An engine in another process, looking exactly like one in this process.

Knows the wire and the protocol; no torch. Where the process is, and what to say when it is gone, is told by whoever
looks after it (`host.EngineHost`).
"""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Protocol

from backend.engine import wire
from backend.engine.protocol import DecodeRequest, EngineStatus, Event, Race, RaceRequest
from backend.errors import HeadwayError

PATIENCE_S = 60.0  #: an answer takes no longer, even when the store has to wait for its turn
START_S = 30.0  #: people wait no longer for an answer
STATUS_S = 5.0
LAST_KINDS = frozenset({"result", "failed", "cancelled"})


class Whereabouts(Protocol):
    """Who knows where the engine is."""

    def address(self, wait_s: float) -> wire.Address:
        """Where the engine listens now, waiting for one that starts; HeadwayError when there is none in that time."""
        ...

    def why_gone(self) -> str:
        """One sentence that says why an engine that was there a moment ago does not answer any more."""
        ...

    def state(self) -> str | None:
        """What the engine's process is doing, when it can't be asked itself: such as "starting the engine"."""
        ...

    def close(self) -> None: ...


class RemoteEngine:
    """See protocol.Engine; every call may also raise HeadwayError because the process is gone.

    start_s: how long a call waits for an engine that is being started again.
    """

    def __init__(self, where: Whereabouts, start_s: float = START_S) -> None:
        self._where, self._start_s = where, start_s

    def submit(self, request: DecodeRequest) -> str:
        return str(self._call("submit", request=request.model_dump()))

    def race(self, request: RaceRequest) -> Race:
        made = self._call("race", request=request.model_dump())
        return Race(str(made["id"]), tuple(made["runs"]))

    def cancel(self, run_id: str) -> None:
        self._call("cancel", run_id=run_id)

    def share(self, run_id: str) -> None:
        self._call("share", run_id=run_id)

    def drafters(self, target: str) -> list[dict[str, Any]]:
        return list(self._call("drafters", target=target))

    def machine(self) -> dict[str, Any]:
        return dict(self._call("machine"))

    def poke(self) -> None:
        self._call("poke", wait_s=0.0)  # an engine that is just starting looks at its queue anyway

    def status(self) -> EngineStatus:
        """Never waits long: a process that is not there is a status too."""
        doing = self._where.state()
        if doing is None:
            try:
                data = self._call("status", wait_s=0.0, patience_s=STATUS_S)
                return EngineStatus(**data | {"queued": tuple(data["queued"])})
            except HeadwayError:
                doing = self._where.state() or "not answering"
        return EngineStatus(holder=doing, running=None, queued=(), loaded_target=None, device="auto")

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        """When the process ends meanwhile, the last event is a `failed` one that says so."""
        question = {"run_id": run_id, "after": after, "timeout_s": timeout_s}
        connection = self._ask("events", question, self._start_s)
        try:
            self._reply(connection, PATIENCE_S)
        except BaseException:
            connection.close()
            raise
        return self._stream(connection, after, None if timeout_s is None else timeout_s + PATIENCE_S)

    def close(self) -> None:
        """Lets go of the process; one that was started for us ends in order."""
        self._where.close()

    def _stream(self, connection: Connection, after: int, patience_s: float | None) -> Iterator[Event]:
        with connection:
            while True:
                try:
                    message = self._receive(connection, patience_s)
                except wire.BROKEN:
                    yield Event(after + 1, "failed", {"error": self._where.why_gone()})
                    return
                for seq, kind, data in message.get("items", ()):
                    after = seq
                    yield Event(seq, kind, data)
                if "error" in message:
                    raise wire.raised(message["error"])
                if "end" in message:
                    return

    def _call(self, name: str, wait_s: float | None = None, patience_s: float = PATIENCE_S, **given: Any) -> Any:
        with self._ask(name, given, self._start_s if wait_s is None else wait_s) as connection:
            return self._reply(connection, patience_s).get("value")

    def _ask(self, name: str, given: dict[str, Any], wait_s: float) -> Connection:
        """A connection on which the question was put; the engine did nothing yet when this fails."""
        for last in (False, True):
            address = self._where.address(wait_s)
            try:
                connection = wire.connect(address)
                try:
                    wire.send(connection, {"call": name, "arguments": given})
                    return connection
                except BaseException:
                    connection.close()
                    raise
            except wire.BROKEN:
                if last:
                    break
                self._where.why_gone()  # by then it is known that this one is gone, and the next one is waited for
        raise HeadwayError(self._where.why_gone())

    def _reply(self, connection: Connection, patience_s: float) -> dict[str, Any]:
        try:
            message = self._receive(connection, patience_s)
        except wire.BROKEN:
            raise HeadwayError(self._where.why_gone()) from None
        if "error" in message:
            raise wire.raised(message["error"])
        return message

    def _receive(self, connection: Connection, patience_s: float | None) -> dict[str, Any]:
        if patience_s is not None and not connection.poll(patience_s):
            raise HeadwayError(f"The engine did not answer for {patience_s:.0f} s; wait a moment and try again.")
        return wire.receive(connection)
