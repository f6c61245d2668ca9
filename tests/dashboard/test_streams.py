"""Event streams: complete, in order, resumable after any event, without blocking and without outliving their reader."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from backend.engine.protocol import DecodeRequest, Event
from backend.errors import HeadwayError
from dashboard.streams import event_text, resume_point, sse_message
from tests.dashboard.aside import run
from tests.ui.replay_engine import ReplayEngine


@pytest.fixture
def engine() -> Iterator[ReplayEngine]:
    made = ReplayEngine(steps_per_s=None)
    yield made
    made.close()


def started(engine: ReplayEngine, **changes: Any) -> str:
    return engine.submit(DecodeRequest(raw_prompt="x", **changes))


def parse(text: str) -> list[dict[str, Any]]:
    """Events as a browser would read them."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields and fields.get("event") != "end":
            event = json.loads(fields["data"])
            assert fields.get("id") == (str(event["seq"]) if event["seq"] else None)
            events.append(event)
    return events


async def read(stream: AsyncIterator[str], until: int | None = None) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async for text in stream:
        events += parse(text)
        if until is not None and len(events) >= until:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return events


def test_a_whole_run_arrives_in_order_and_ends(engine: ReplayEngine) -> None:
    run_id = started(engine)
    events = run(read, event_text(engine, run_id, 0, 1.0))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    assert (
        kinds[:3] == ["queued", "started", "prefill"]
        and kinds[-1] == "result"
        and kinds.count("step") == events[-1]["data"]["num_steps"]
    )


@pytest.mark.parametrize("after", [1, 3, 10])
def test_resuming_gives_exactly_the_rest(engine: ReplayEngine, after: int) -> None:
    run_id = started(engine)
    whole = run(read, event_text(engine, run_id, 0, 1.0))
    assert run(read, event_text(engine, run_id, after, 1.0)) == whole[after:]
    assert run(read, event_text(engine, run_id, len(whole), 1.0)) == []  # a finished run ends at once


def test_a_reader_that_drops_and_comes_back_misses_nothing() -> None:
    engine = ReplayEngine(steps_per_s=200)
    run_id = started(engine, max_new_tokens=200)

    async def twice() -> list[dict[str, Any]]:
        first = await read(event_text(engine, run_id, 0, 1.0), until=12)
        return first + await read(event_text(engine, run_id, first[-1]["seq"], 1.0))

    events = run(twice)
    engine.close()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and events[-1]["kind"] == "result"


async def read_many(engine: Any, run_id: str, count: int, then: Callable[[], None]) -> list[list[dict[str, Any]]]:
    """What `count` readers at once get; `then` is called from the event loop while they read."""
    results: list[list[dict[str, Any]]] = []

    async def one() -> None:
        results.append(await read(event_text(engine, run_id, 0, 1.0)))

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
        await anyio.sleep(0.1)
        then()
    return results


def test_many_readers_get_the_same() -> None:
    engine = ReplayEngine(steps_per_s=100)
    results = run(read_many, engine, started(engine), 12, lambda: None)
    engine.close()
    assert len(results) == 12 and all(result == results[0] for result in results)
    assert results[0][-1]["kind"] == "result"


def test_a_silent_engine_does_not_hold_up_the_event_loop() -> None:
    gate = threading.Event()

    class Waiting(ReplayEngine):
        def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
            yield Event(1, "result", {"opened": gate.wait(20)})

    engine = Waiting(steps_per_s=None)
    results = run(read_many, engine, "r", 50, gate.set)  # only a free loop can open the gate
    engine.close()
    assert len(results) == 50 and all(result[0]["data"]["opened"] for result in results)


def test_silence_is_broken_by_heartbeats_and_a_left_stream_ends_its_thread() -> None:
    class Silent(ReplayEngine):
        def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
            time.sleep(0.05)
            return iter(())

    engine = Silent(steps_per_s=None)

    async def listen() -> str:
        stream = event_text(engine, "r", 0, 0.05)
        text = "".join([await anext(stream) for _ in range(3)])
        await stream.aclose()
        return text

    assert run(listen).count(": nothing new") == 2
    engine.close()
    limit = time.monotonic() + 10
    while any(thread.name == "headway-stream-r" for thread in threading.enumerate()):
        assert time.monotonic() < limit, "the reader's thread outlives its stream"
        time.sleep(0.02)


class Broken(ReplayEngine):
    """Its events end in an error."""

    error: Exception = HeadwayError("The run “r” is not there.")

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        yield Event(1, "started", {})
        raise self.error


def test_errors_are_one_sentence_and_faults_tell_nothing(caplog: pytest.LogCaptureFixture) -> None:
    engine = Broken(steps_per_s=None)
    last = run(read, event_text(engine, "r", 0, 1.0))[-1]
    assert last == {"seq": 0, "kind": "failed", "data": {"error": "The run “r” is not there."}}
    engine.error = RuntimeError("secret /home/me")
    with caplog.at_level(logging.ERROR):
        last = run(read, event_text(engine, "r", 0, 1.0))[-1]
    assert "secret" not in last["data"]["error"] and "secret" in caplog.text
    engine.close()


def test_a_message_survives_any_text() -> None:
    text = "line\nbreak \r\n\u2028 😀 <script> ${x} data: id: 7"
    message = sse_message(Event(4, "step", {"text": text}))
    assert parse(message) == [{"seq": 4, "kind": "step", "data": {"text": text}}]
    assert message.count("\n") == 3 and "\r" not in message


@pytest.mark.parametrize(
    ("headers", "query", "point"),
    [
        ({}, "", 0),
        ({"last-event-id": "7"}, "after=3", 7),
        ({}, "after=3", 3),
        ({"last-event-id": "x"}, "after=-1", 0),
        ({}, "after=²", 0),
    ],
)
def test_where_to_go_on(headers: dict[str, str], query: str, point: int) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = Request({"type": "http", "headers": raw, "query_string": query.encode(), "path": "/", "method": "GET"})
    assert resume_point(request) == point
