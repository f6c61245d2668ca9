"""Server-sent events: what happens to a run, as it happens, to any number of browsers.

Knows the engine's `events`, no page. The engine's iterator blocks, so each reader has a thread; the thread hands over
batches and the event loop never waits. Every event keeps its number as SSE id, so a browser that comes back misses
nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from backend.engine.protocol import Engine, Event
from backend.errors import HeadwayError
from storage.errors import StoreError

LAST_KINDS = frozenset({"result", "failed", "cancelled"})
POLL_S = 1.0  # how long a reader's thread may outlive its browser
MAX_WAITING = 1024  # events read ahead of a slow browser
log = logging.getLogger(__name__)


def sse_message(event: Event) -> str:
    """One event as text; JSON without line breaks, so one data line holds it."""
    payload = json.dumps(
        {"seq": event.seq, "kind": event.kind, "data": event.data}, ensure_ascii=False, separators=(",", ":")
    )
    number = f"id: {event.seq}\n" if event.seq else ""
    return f"{number}data: {payload}\n\n"


def resume_point(request: Request) -> int:
    """The number after which to go on: the browser's own Last-Event-ID after a drop, `?after=` after a reload."""
    for text in (request.headers.get("last-event-id"), request.query_params.get("after")):
        if text is not None and text.isascii() and text.isdigit():
            return int(text[:18])
    return 0


class Reader:
    """Follows one run in a thread and gives batches of events to the loop that created it."""

    def __init__(self, engine: Engine, run_id: str, after: int) -> None:
        self._engine = engine
        self._run_id = run_id
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._room = threading.Condition()
        self._waiting: list[Event] = []
        self._closed = False
        self.finished = False  # the thread has nothing more to give
        threading.Thread(target=self._follow, name=f"headway-stream-{run_id[:12]}", daemon=True).start()

    def close(self) -> None:
        with self._room:
            self._closed = True
            self._room.notify_all()

    async def batch(self, timeout_s: float) -> list[Event]:
        """What came since the last call; empty after `timeout_s` without anything, or when finished."""
        if not self.finished:
            try:
                await asyncio.wait_for(self._ready.wait(), timeout_s)
            except TimeoutError:
                return []
        with self._room:
            self._ready.clear()
            events, self._waiting = self._waiting, []
            self._room.notify_all()
        return events

    def _follow(self) -> None:
        try:
            while not self._closed and not self._read_until_quiet():
                pass
        except (HeadwayError, StoreError) as error:
            self._give(Event(0, "failed", {"error": str(error)}))
        except Exception:
            log.exception("the stream of run %s broke off", self._run_id)
            self._give(
                Event(0, "failed", {"error": "The stream broke off because of a fault in Headway; see its log."})
            )
        self.finished = True
        self._wake()

    def _read_until_quiet(self) -> bool:
        """Read until the engine is silent for a while; True when the run is over.

        Starts one event early: an iterator without a single event could mean silence or the end, the last event tells
        which.
        """
        for event in self._engine.events(self._run_id, after=max(self._after - 1, 0), timeout_s=POLL_S):
            if event.seq > self._after:
                self._after = event.seq
                if not self._give(event):
                    return True
            if event.kind in LAST_KINDS:
                return True
        return False

    def _give(self, event: Event) -> bool:
        with self._room:
            self._room.wait_for(lambda: self._closed or len(self._waiting) < MAX_WAITING)
            if self._closed:
                return False
            self._waiting.append(event)
        self._wake()
        return True

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:  # the loop was closed under us: the server is going down
            self._closed = True


async def event_text(engine: Engine, run_id: str, after: int, heartbeat_s: float) -> AsyncIterator[str]:
    """The body of the stream; closes its reader when the browser leaves."""
    reader = Reader(engine, run_id, after)
    try:
        yield "retry: 1000\n\n"
        while True:
            finished = reader.finished  # asked before reading, so that nothing given in between is lost
            events = await reader.batch(heartbeat_s)
            if events:
                yield "".join(map(sse_message, events))
            elif finished:
                yield "event: end\ndata: {}\n\n"
                return
            elif not reader.finished:
                yield ": nothing new\n\n"
    finally:
        reader.close()


def run_events(engine: Engine, heartbeat_s: float) -> Any:
    """The route's function for `/headway/runs/{run_id}/events`."""

    async def endpoint(request: Request) -> StreamingResponse:
        text = event_text(engine, request.path_params["run_id"], resume_point(request), heartbeat_s)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(text, media_type="text/event-stream", headers=headers)

    return endpoint
