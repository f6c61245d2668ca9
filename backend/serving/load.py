"""A load on a running server: closed-loop clients, or arrivals at random, with answers streamed and every piece timed.

    closed loop: each of N clients sends its next request when it has its answer
    open loop:   requests arrive at `rate` a second, with exponential gaps (Poisson), however long answers take

Works against any OpenAI-compatible server. A server that goes away ends the test with what there is. Knows no drafter;
what the records say is worked out in load_figures.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from backend.errors import Cancelled, HeadwayError
from backend.serving.client import ServerGone, ask_counters, http_client, is_well, streamed
from backend.serving.counters import DraftCounters
from backend.serving.run_to_end import run_to_end

WATCH_S: Final = 0.5
SILENT_S: Final = 30.0  #: so long without health and without a piece of any answer, a server counts as gone
REFUSED_MOST: Final = 5  #: refused requests without a single answer, after which the test is given up

Api = Literal["chat", "completions"]


@dataclass(frozen=True)
class LoadPrompt:
    """One request's prompt: messages (chat), or token ids or text (completions)."""

    id: str
    category: str
    content: Any


@dataclass(frozen=True)
class Load:
    """How a server is loaded.

    Args:
        clients: of a closed loop; None for an open one.
        rate: requests a second of an open loop; None for a closed one.
        seconds: how long requests are sent; answers that are under way then are waited for `drain_s` at most.
        max_requests: an end before that time.
        ignore_eos: answers go on to the limit, so that every arm writes equally much; not every server can.
    """

    clients: int | None
    rate: float | None
    seconds: float
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    max_requests: int | None = None
    drain_s: float = 60.0
    ignore_eos: bool = False
    api: Api = "chat"

    @property
    def label(self) -> str:
        return f"{self.clients} clients" if self.clients is not None else f"{self.rate:g} a second"


@dataclass
class RequestRecord:
    """One request; times in seconds since the test began.

    Args:
        number: its place in the order of sending. Prompts follow each other in the same order in every test.
        sent_s, first_s, last_s: sent, first and last piece with text; None where there was none.
        tokens: as the server counts them; pieces where it does not count.
        pieces: [time, tokens] of every piece; a piece holds several tokens where drafts were accepted.
        digest: of the text, to tell whether two answers are the same.
        finish: stop, length, error, or cut (still under way when the test ended).
    """

    number: int
    prompt: str
    category: str
    sent_s: float
    first_s: float | None = None
    last_s: float | None = None
    tokens: int = 0
    finish: str = "cut"
    error: str | None = None
    digest: str = ""
    pieces: list[tuple[float, int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


@dataclass(frozen=True)
class LoadResult:
    """What came of a test. `seconds`: how long requests were sent; `gone`: why it ended early, None where it did not;
    `counters`: what the server counted in between, None where it does not.
    """

    load: Load
    records: tuple[RequestRecord, ...]
    seconds: float
    gone: str | None
    counters: DraftCounters | None


def run_load(
    url: str,
    model: str,
    prompts: Sequence[LoadPrompt],
    load: Load,
    on_record: Callable[[RequestRecord], None] = lambda record: None,
    stopped: Callable[[], bool] = lambda: False,
    on_tick: Callable[[float, int, DraftCounters | None], None] = lambda seconds, done, counters: None,
    clock: Callable[[], float] = time.monotonic,
) -> LoadResult:
    """Load the server and come back when all answers are in, the server is gone, or `stopped` says so.

    `on_record` gets each request when it has ended; `on_tick` about once a second how long it has gone on, how many
    have ended, and what the server counted since the start. Raises Cancelled when it was stopped, HeadwayError when the
    server refuses every request, ServerGone when it does not even answer at the beginning.
    """
    if not prompts:
        raise HeadwayError("There are no prompts to send; choose a file with at least one.")
    return run_to_end(_Run(url, model, prompts, load, on_record, stopped, on_tick, clock).run())


class _Run:
    def __init__(
        self,
        url: str,
        model: str,
        prompts: Sequence[LoadPrompt],
        load: Load,
        on_record: Callable[[RequestRecord], None],
        stopped: Callable[[], bool],
        on_tick: Callable[[float, int, DraftCounters | None], None],
        clock: Callable[[], float],
    ) -> None:
        self._model, self._prompts, self._load = model, prompts, load
        self._on_record, self._stopped, self._on_tick, self._clock = on_record, stopped, on_tick, clock
        self._client = http_client(url, connections=max(load.clients or 0, 1000 if load.rate else 0) + 4)
        self._records: list[RequestRecord] = []
        self._sent = self._answered = 0
        self._refused: HeadwayError | None = None
        self._gone: str | None = None
        self._look = asyncio.Event()  # set when a request broke off: look at the server at once
        self._begin = self._heard = 0.0
        self._before: DraftCounters | None = None
        self._first_counters = True

    async def run(self) -> LoadResult:
        async with self._client:
            self._before = await ask_counters(self._client)
            self._begin = self._heard = self._clock()
            work = asyncio.create_task(self._work())
            watch = asyncio.create_task(self._watch())
            try:
                await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (work, watch):
                    task.cancel()
                outcomes = await asyncio.gather(work, watch, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
            after = None
            if self._gone is None and self._before is not None:
                with suppress(ServerGone):
                    after = await ask_counters(self._client)
        counters = after.since(self._before) if after is not None and self._before is not None else None
        seconds = min(self._load.seconds, self._clock() - self._begin)
        return LoadResult(self._load, tuple(self._records), seconds, self._gone, counters)

    # -- sending
    # ----------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        if self._load.clients is not None:
            await _together([self._one_client() for _ in range(self._load.clients)], self._drained())
        else:
            await self._arrivals()

    async def _one_client(self) -> None:
        while self._may_send():
            await self._one_request(self._next())

    async def _arrivals(self) -> None:
        chance = random.Random(self._load.seed)
        due, tasks = self._clock(), set()
        while True:
            due += chance.expovariate(self._load.rate or 1.0)
            await asyncio.sleep(max(0.0, due - self._clock()))
            if not self._may_send():
                break
            tasks.add(asyncio.create_task(self._one_request(self._next())))
        await _together(tasks, self._drained())

    def _may_send(self) -> bool:
        most = self._load.max_requests
        return self._now() < self._load.seconds and (most is None or self._sent < most)

    def _next(self) -> int:
        self._sent += 1
        return self._sent - 1

    async def _drained(self) -> None:
        await asyncio.sleep(max(0.0, self._load.seconds - self._now()) + self._load.drain_s)

    async def _one_request(self, number: int) -> None:
        prompt = self._prompts[number % len(self._prompts)]
        record = RequestRecord(number, prompt.id, prompt.category, self._now())
        text: list[str] = []
        try:
            path, body = request_body(self._model, prompt, self._load)
            async with streamed(self._client, path, body) as pieces:
                async for piece in pieces:
                    self._heard = self._clock()
                    if piece.text or piece.tokens:
                        at = self._now()
                        record.first_s = at if record.first_s is None else record.first_s
                        record.last_s = at
                        record.pieces.append((round(at, 4), piece.tokens if piece.tokens is not None else 1))
                        text.append(piece.text)
                    if piece.finish_reason:
                        record.finish = piece.finish_reason
                    if piece.usage is not None:
                        record.tokens = piece.usage
            record.tokens = record.tokens or sum(tokens for _, tokens in record.pieces)
            self._answered += 1
        except HeadwayError as error:
            record.finish, record.error = "error", str(error)
            await self._after_error(error)
        finally:
            record.digest = hashlib.sha256("".join(text).encode()).hexdigest()[:16]
            record.tokens = record.tokens or sum(tokens for _, tokens in record.pieces)
            self._records.append(record)
            self._on_record(record)

    async def _after_error(self, error: HeadwayError) -> None:
        if isinstance(error, ServerGone):
            self._look.set()
            await asyncio.sleep(WATCH_S)  # the watch says whether to go on
        elif not self._answered and sum(one.error is not None for one in self._records) + 1 >= REFUSED_MOST:
            self._refused = error
            self._look.set()

    # -- watching
    # ---------------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Ends when the server is gone; raises Cancelled or what the server says against every request."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._look.wait(), WATCH_S)
            self._look.clear()
            if self._refused is not None:
                raise self._refused
            if self._stopped():
                raise Cancelled("The load test was stopped; what it has measured is kept.")
            try:
                well = await is_well(self._client)
                counters = await ask_counters(self._client) if well and self._before is not None else None
            except ServerGone as error:
                self._gone = f"{error} The test ended after {self._now():.0f} s with what it had."
                return
            except HeadwayError:
                counters, well = None, True
            if not well and self._clock() - self._heard > SILENT_S:
                self._gone = f"The server gave no sign of life for {SILENT_S:.0f} s; the test ended with what it had."
                return
            since = counters.since(self._before) if counters is not None and self._before is not None else None
            # It may write to a database, and the clients must not wait for that.
            await asyncio.to_thread(self._on_tick, self._now(), len(self._records), since)

    def _now(self) -> float:
        return self._clock() - self._begin


def request_body(model: str, prompt: LoadPrompt, load: Load) -> tuple[str, dict[str, Any]]:
    """(path, body) of one request."""
    body: dict[str, Any] = {
        "model": model, "max_tokens": load.max_tokens, "temperature": load.temperature,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    if load.temperature > 0:
        body["seed"] = load.seed
    if load.ignore_eos:
        body["ignore_eos"] = True
    if load.api == "chat":
        return "/v1/chat/completions", body | {"messages": prompt.content}
    return "/v1/completions", body | {"prompt": prompt.content}


async def _together(work: Any, limit: Any) -> None:
    """All of `work`, and what is not done when `limit` is over is cancelled. The first error is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    timer = asyncio.create_task(limit)
    waiting = asyncio.gather(*tasks)
    try:
        await asyncio.wait({waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(asyncio.CancelledError, Exception):
            await waiting


def prompts_of(rows: Sequence[Mapping[str, Any]]) -> list[LoadPrompt]:
    """Prompts of plain rows {id, category, content}."""
    return [LoadPrompt(str(row["id"]), str(row.get("category", "")), row["content"]) for row in rows]
