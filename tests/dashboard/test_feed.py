"""The page's one stream: runs, jobs and the whole over one connection, resumable, for any number of browsers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest
from starlette.requests import Request

from backend.engine.protocol import DecodeRequest, EngineStatus
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.feed import PolledTopic, RunTopic, feed_text, job_topic, now_topic, positions_of
from dashboard.jobs import Jobs
from dashboard.pulse import Pulse
from dashboard.runs import Runs
from dashboard.services import Services
from storage import Store
from tests.dashboard.aside import run
from tests.ui.replay_engine import ReplayEngine

Found = list[dict[str, Any]]


@pytest.fixture
def services(tmp_path: Any) -> Iterator[Services]:
    engine = ReplayEngine(steps_per_s=None)
    with Store.open(":memory:") as store:
        places = Settings(home=tmp_path, cache=tmp_path)
        yield Services(engine, AccessPolicy.for_bind(), store, places=places)
    engine.close()


def parse(text: str) -> Found:
    """Messages as a browser reads them, each with the position it was sent with."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            at = {name: values[0] for name, values in parse_qs(fields.get("id", "")).items()}
            found.append(json.loads(fields["data"]) | {"at": at})
    return found


async def read(stream: AsyncIterator[str], until: Callable[[Found], bool]) -> Found:
    found: Found = []
    with anyio.fail_after(20):
        async for text in stream:
            found += parse(text)
            if until(found):
                break
    await stream.aclose()  # type: ignore[attr-defined]
    return found


def of(found: Found, topic: str, kind: str) -> list[Any]:
    return [message["data"] for message in found if message["topic"] == topic and message["kind"] == kind]


def test_runs_jobs_and_the_whole_share_one_stream_and_resume(services: Services) -> None:
    engine, store, jobs = services.engine, services.store, Jobs(services)
    assert store is not None
    pulse = Pulse(services, Runs(services), jobs)
    run_id = engine.submit(DecodeRequest(raw_prompt="x"))
    job_id = jobs.start("distill", {"prompts": ["p"], "out": "o.jsonl"}, name="one")
    leased = store.lease_job("host:1:x", job_id=job_id)
    assert leased is not None
    store.add_metrics(job_id, leased.attempt, [(step, {"loss": 1.0}) for step in range(10)])

    def stream(at: dict[str, str]) -> AsyncIterator[str]:
        topics = [
            now_topic(pulse),
            job_topic(jobs, job_id, at.get(f"job:{job_id}", "")),
            RunTopic(engine, run_id, at.get(f"run:{run_id}", "")),
        ]
        return feed_text(topics, at, 1.0)

    async def all_of_it() -> Found:
        def whole(found: Found) -> bool:
            return bool(of(found, f"run:{run_id}", "end") and of(found, f"job:{job_id}", "metrics"))

        return await read(stream({}), whole)

    async def rest_of_it(at: dict[str, str]) -> Found:
        return await read(stream(at), lambda found: bool(of(found, f"run:{run_id}", "end")))

    found = run(all_of_it)
    events = of(found, f"run:{run_id}", "event")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and events[-1]["kind"] == "result"
    assert [row[1] for row in of(found, f"job:{job_id}", "metrics")[0]["rows"]] == list(range(10))
    assert of(found, "now", "status")[0]["device"] == "cpu" and of(found, "now", "jobs")[0][0]["id"] == job_id
    middle = next(message["at"] for message in found if message["at"].get(f"run:{run_id}") == "5")
    store.add_metrics(job_id, leased.attempt, [(10, {"loss": 0.5})])
    rest = run(rest_of_it, middle)
    assert [event["seq"] for event in of(rest, f"run:{run_id}", "event")] == list(range(6, len(events) + 1))
    if f"job:{job_id}" in middle:
        assert [row[1] for row in of(rest, f"job:{job_id}", "metrics")[0]["rows"]] == [10]


def test_a_stream_whose_run_is_over_goes_on_with_the_rest(services: Services) -> None:
    """A page stays connected for the header after its run has ended."""
    run_id = services.engine.submit(DecodeRequest(raw_prompt="x"))
    pulse = Pulse(services, Runs(services), Jobs(services), renew_s=0.0)

    async def listen() -> Found:
        seen = 0

        def later(found: Found) -> bool:
            nonlocal seen
            if of(found, f"run:{run_id}", "end") and not seen:
                seen = 1
                Jobs(services).start("distill", {"prompts": ["p"], "out": "o.jsonl"})
            return any(of(found, "now", "jobs")[-1:][0] if of(found, "now", "jobs") else [])

        return await read(feed_text([now_topic(pulse), RunTopic(services.engine, run_id, "")], {}, 0.2), later)

    assert of(run(listen), "now", "jobs")[-1][0]["status"] == "queued"


def test_a_left_stream_stops_asking() -> None:
    asked = 0

    def poll() -> list[Any]:
        nonlocal asked
        asked += 1
        return []

    async def listen() -> int:
        stream = feed_text([PolledTopic(poll, 0.01, 0.02)], {}, 0.05)
        for _ in range(3):
            await anext(stream)
        await stream.aclose()
        before = asked
        await anyio.sleep(0.3)
        return asked - before

    assert run(listen) <= 1 and asked > 1


def test_a_snapshot_serves_everybody_and_a_broken_part_keeps_its_last_value(services: Services) -> None:
    calls = 0
    broken = False

    class Counting(ReplayEngine):
        def status(self) -> EngineStatus:
            nonlocal calls
            calls += 1
            if broken:
                raise OSError("the engine went away")
            return super().status()

    engine = Counting(steps_per_s=None)
    now = [0.0]
    made = Services(engine, services.access, services.store)
    pulse = Pulse(made, Runs(made), Jobs(made), clock=lambda: now[0])
    first = pulse.snapshot()
    assert [pulse.snapshot() for _ in range(5)] == [first] * 5 and calls == 1
    broken, now[0] = True, 5.0
    again = pulse.snapshot()
    assert calls == 2 and again["status"] == first["status"]
    engine.close()


@pytest.mark.parametrize(
    ("header", "query", "at"),
    [
        (None, "at=run%253A1%3D5", {"run:1": "5"}),
        (None, "at=run%3A1%3D5%26job%3A2%3D3.4.5", {"run:1": "5", "job:2": "3.4.5"}),
        ("run%3A1=9", "at=run%3A1%3D5", {"run:1": "9"}),
        ("nonsense", "", {}),
    ],
)
def test_where_each_topic_goes_on(header: str | None, query: str, at: dict[str, str]) -> None:
    headers = [(b"last-event-id", header.encode())] if header else []
    request = Request(
        {"type": "http", "headers": headers, "query_string": query.encode(), "path": "/", "method": "GET"}
    )
    assert positions_of(request) == at
