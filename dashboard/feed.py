"""One stream a page: what happens to the runs and jobs it shows and to the whole, over a single connection.

A browser allows six connections a host, so a page must not hold two. Topics: `now` (device, machine, list of jobs),
`job:ID` (record, metrics, items, log) and `run:ID` (events of a decode run). Every message carries as SSE id where
each topic stands, so a browser that comes back goes on exactly there. Knows no page and no Gradio.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from backend.engine.protocol import Engine
from dashboard.job_follower import JobFollower
from dashboard.jobs import Jobs
from dashboard.pulse import Pulse
from dashboard.streams import Reader

MAX_TOPICS = 12
QUIET_S = (0.2, 2.0)  # how long a poll waits after news, and at most after silence
RESPONSE_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Message:
    """`position` is where the topic stands after it; None for news that are whole each time."""

    topic: str
    kind: str
    data: Any
    position: str | None = None


class Topic(Protocol):
    """Waits for news; an empty batch means the topic is over."""

    async def batch(self) -> Sequence[Message]: ...

    def close(self) -> None: ...


class RunTopic:
    """The events of one decode run. Make it inside the event loop."""

    def __init__(self, engine: Engine, run_id: str, position: str) -> None:
        self._topic = f"run:{run_id}"
        self._reader = Reader(engine, run_id, number(position))
        self._ended = False

    async def batch(self) -> Sequence[Message]:
        while not self._ended:
            finished = self._reader.finished  # asked before reading, so that nothing given in between is lost
            events = await self._reader.batch(5.0)
            if events:
                return [self._message(event) for event in events]
            if finished:
                self._ended = True
                return [Message(self._topic, "end", {})]
        return []

    def _message(self, event: Any) -> Message:
        data = {"seq": event.seq, "kind": event.kind, "data": event.data}
        return Message(self._topic, "event", data, str(event.seq) if event.seq else None)

    def close(self) -> None:
        self._reader.close()


class PolledTopic:
    """What a function finds, asked again and again: soon after news, ever more rarely in silence."""

    def __init__(self, poll: Callable[[], Sequence[Message]], quickest_s: float, slowest_s: float) -> None:
        self._poll = poll
        self._quickest_s = quickest_s
        self._slowest_s = slowest_s
        self._wait_s = 0.0

    async def batch(self) -> Sequence[Message]:
        while True:
            await asyncio.sleep(self._wait_s)
            found = await run_in_threadpool(self._poll)
            self._wait_s = self._quickest_s if found else min(max(self._wait_s, 0.1) * 1.4, self._slowest_s)
            if found:
                return found

    def close(self) -> None:
        pass


def job_topic(jobs: Jobs, job_id: str, position: str) -> PolledTopic:
    """Record, metrics, items and log of one job; see `job_follower`."""
    follower = JobFollower(jobs, job_id, position)
    topic = f"job:{job_id}"

    def poll() -> list[Message]:
        news = follower.poll()
        return [Message(topic, kind, data, follower.position) for kind, data in news]

    return PolledTopic(poll, *QUIET_S)


def now_topic(pulse: Pulse) -> PolledTopic:
    """Status, machine and jobs, each when it differs from what was sent."""
    sent: dict[str, Any] = {}

    def poll() -> list[Message]:
        news = {name: value for name, value in pulse.snapshot().items() if sent.get(name) != value}
        sent.update(news)
        return [Message("now", name, value) for name, value in news.items()]

    return PolledTopic(poll, 0.8, 2.0)


def message_text(message: Message, positions: dict[str, str]) -> str:
    """One SSE message; JSON has no line breaks, so one data line holds it."""
    payload = json.dumps(
        {"topic": message.topic, "kind": message.kind, "data": message.data},
        ensure_ascii=False, separators=(",", ":"), default=str,
    )  # fmt: skip
    return f"id: {urlencode(positions)}\ndata: {payload}\n\n" if positions else f"data: {payload}\n\n"


async def feed_text(topics: Sequence[Topic], positions: dict[str, str], heartbeat_s: float) -> AsyncIterator[str]:
    """The body of the stream; gives up its topics when the browser leaves."""
    queue: asyncio.Queue[Message] = asyncio.Queue(256)
    at = dict(positions)
    tasks = [asyncio.create_task(_pump(topic, queue)) for topic in topics]
    try:
        yield "retry: 1000\n\n"
        while True:
            try:
                messages = [await asyncio.wait_for(queue.get(), heartbeat_s)]
            except TimeoutError:
                yield ": nothing new\n\n"
                continue
            while not queue.empty():
                messages.append(queue.get_nowait())
            parts = []
            for message in messages:
                if message.position is not None:
                    at[message.topic] = message.position
                parts.append(message_text(message, at))
            yield "".join(parts)
    finally:
        for task in tasks:
            task.cancel()
        for topic in topics:
            topic.close()


async def _pump(topic: Topic, queue: asyncio.Queue[Message]) -> None:
    while batch := await topic.batch():
        for message in batch:
            await queue.put(message)


def positions_of(request: Request) -> dict[str, str]:
    """Where each topic stands: the browser's own Last-Event-ID after a drop, `?at=` when it asks for other topics."""
    text = request.headers.get("last-event-id") or request.query_params.get("at") or ""
    return {name: value for name, value in parse_qsl(text[:4000]) if ":" in name}


def number(text: str) -> int:
    """A position as a whole number; 0 for anything else."""
    return int(text[:18]) if text.isascii() and text.isdigit() else 0


def page_events(engine: Engine, jobs: Jobs, pulse: Pulse, heartbeat_s: float) -> Any:
    """The route's function for `/headway/events?job=ID&run=ID&at=POSITIONS`; `job` and `run` may be repeated."""

    async def endpoint(request: Request) -> StreamingResponse:
        at = positions_of(request)
        query = request.query_params
        topics: list[Topic] = [now_topic(pulse)]
        for job_id in query.getlist("job")[:MAX_TOPICS]:
            topics.append(job_topic(jobs, job_id, at.get(f"job:{job_id}", "")))
        for run_id in query.getlist("run")[:MAX_TOPICS]:
            topics.append(RunTopic(engine, run_id, at.get(f"run:{run_id}", "")))
        return _stream(topics, at, heartbeat_s)

    return endpoint


def job_events(jobs: Jobs, heartbeat_s: float) -> Any:
    """The route's function for `/headway/jobs/{job_id}/events?after=SEQ`, for scripts and for one job alone."""

    async def endpoint(request: Request) -> StreamingResponse:
        job_id = request.path_params["job_id"]
        topic = f"job:{job_id}"
        at = positions_of(request) or {topic: request.query_params.get("after", "")}
        return _stream([job_topic(jobs, job_id, at.get(topic, ""))], at, heartbeat_s)

    return endpoint


def _stream(topics: Sequence[Topic], at: dict[str, str], heartbeat_s: float) -> StreamingResponse:
    text = feed_text(topics, at, heartbeat_s)
    return StreamingResponse(text, media_type="text/event-stream", headers=RESPONSE_HEADERS)
