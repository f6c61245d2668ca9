"""The engine: owns a device, runs decode requests one after another, tells whoever listens, remembers in the store.

It runs in a thread of the process that made it; callers see only `protocol.Engine`, so moving it into a process of its
own changes nothing for them. Knows no page.
"""

from __future__ import annotations

import itertools
import queue
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from backend.decoding.loop import decode
from backend.decoding.records import DecodeResult, Detail, StepTrace
from backend.drafters.plain.drafter import PlainDrafter
from backend.engine.conditions import asked, check_request, conditions, context_of, decode_settings, encode_request
from backend.engine.lease import device_lease
from backend.engine.protocol import DecodeRequest, EngineStatus, Event
from backend.engine.recorder import Recorder, replay, result_data, stored_result
from backend.engine.remember import register_drafter, register_version
from backend.engine.run_log import RunLog
from backend.engine.workbench import Workbench, offered_drafters
from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.target import Target
from storage import NotFoundError, Store, StoreError

KEPT_LOGS = 64  #: finished runs whose events stay in memory; older ones are read from the store
TRACE_BYTES = 1 << 30  #: recorded steps kept at most; when an engine starts, the oldest are dropped, their runs stay
PLAIN_TOKENS = 12  #: plain steps measured after a run, for the comparison in the same turn


@dataclass
class _Run:
    request: DecodeRequest
    log: RunLog
    cancel: threading.Event = field(default_factory=threading.Event)
    stored: bool = False


class LocalEngine:
    """See protocol.Engine. `store` None: nothing is remembered past the process."""

    def __init__(
        self,
        settings: Settings,
        store: Store | None = None,
        device: str | None = None,
        dtype: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self._settings, self._store = settings, store
        asked_for = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
        self._started_with: dict[str, str | bool] = {name: value for name, value in asked_for.items() if value}
        self._bench = Workbench(settings, device, dtype, trust_remote_code, measures_costs=True)
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._waiting: list[str] = []
        self._running: str | None = None
        self._lock = threading.Lock()
        self._jobs: queue.Queue[str | None] = queue.Queue()
        self._closed = False
        self._unmarked: dict[str, str] = {}  # failed runs that the store doesn't know to have failed, and why
        if store is not None:
            store.mark_interrupted()
            store.prune_traces(max_bytes=TRACE_BYTES)
        self._worker = threading.Thread(target=self._work, name="headway-engine", daemon=True)
        self._worker.start()

    # -- protocol.Engine
    # --------------------------------------------------------------------------------------------------

    def submit(self, request: DecodeRequest) -> str:
        check_request(request)
        run_id = self._create(request)
        run = _Run(request, RunLog(run_id), stored=self._store is not None)
        with self._lock:
            if self._closed:
                raise HeadwayError("The engine is shutting down; start Headway again.")
            self._runs[run_id] = run
            ahead = len(self._waiting) + (self._running is not None)
            self._waiting.append(run_id)
            self._forget_old()
        run.log.append("queued", {"position": ahead})
        self._jobs.put(run_id)
        return run_id

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        with self._lock:
            run = self._runs.get(run_id)
        if run is not None:
            return run.log.read(after, timeout_s)
        return self._replayed(run_id, after)

    def cancel(self, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(run_id)
            waiting = run_id in self._waiting
            if waiting:
                self._waiting.remove(run_id)
        if run is None:
            return
        run.cancel.set()
        if waiting:
            try:
                if self._store is not None:
                    self._store.cancel_run(run_id)
            finally:  # whoever waits for the run learns of it, whatever the store says
                run.log.append("cancelled", {})
                self._announce_positions()

    def status(self) -> EngineStatus:
        with self._lock:
            holder = "decoding a prompt" if self._running else None
            waiting, bench = tuple(self._waiting), self._bench
            return EngineStatus(holder, self._running, waiting, bench.loaded, bench.device, dict(self._started_with))

    def drafters(self, target: str) -> list[dict[str, Any]]:
        return offered_drafters(self._settings, target, dict(self._bench.costs))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            open_runs = [self._running, *self._waiting]
        for run_id in open_runs:
            if run_id is not None:
                self.cancel(run_id)
        self._jobs.put(None)
        self._worker.join(timeout=60)

    # -- the worker
    # -----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (run_id := self._jobs.get()) is not None:
            with self._lock:
                if run_id not in self._waiting:
                    continue  # cancelled while it waited
                self._waiting.remove(run_id)
                self._running = run_id
                run = self._runs[run_id]
            self._announce_positions()
            try:
                with suppress(StoreError):  # the run itself will tell when the store still can't be written
                    self._mark_failed()
                self._decode(run)
            except (HeadwayError, StoreError) as error:
                self._fail(run, str(error))
            except Exception as error:  # a fault of ours: the run fails, the engine lives on
                self._fail(
                    run, f"Headway failed inside ({type(error).__name__}: {str(error)[:200]}); please report it."
                )
            finally:
                with self._lock:
                    self._running = None

    def _decode(self, run: _Run) -> None:
        run_id, request, log = run.log.run_id, run.request, run.log
        target = self._bench.target(
            request.target,
            lambda fraction, sentence: log.append("loading", {"fraction": fraction, "sentence": sentence}),
            context_of(request),
        )
        drafter, warnings = self._bench.drafter(request, target)
        prompt = encode_request(request, target)
        settings = decode_settings(request, Detail.FULL)
        described = conditions(request, target, drafter)
        recorder = Recorder(self._store, run_id) if self._store is not None else None
        if self._store is not None:
            version_id = register_version(self._store, target)
            drafter_id = register_drafter(self._store, request.drafter, version_id)
            self._store.start_run(run_id, settings=described, version_id=version_id, drafter_id=drafter_id)
        log.append("started", {"conditions": described, "warnings": warnings, "stored": False})
        result: DecodeResult | None = None
        with device_lease(self._settings.home, target.device.type) as alone, _kept(recorder):
            for record in decode(target, drafter, [prompt], settings, cancelled=run.cancel.is_set):
                if isinstance(record, DecodeResult):
                    result = record
                    continue
                data = record.to_dict()
                log.append(record.kind, data)
                if recorder is not None:
                    recorder.add(data)
            plain = None
            if result is not None and result.finish_reason != "cancelled" and drafter.family != "none":
                plain = self._plain_speed(run, target, prompt, result)
                if plain is not None:
                    cost = result.draft_ms / result.num_steps / plain["step_ms"]
                    self._bench.costs[request.target, request.drafter.strip()] = cost
        self._finish(run, recorder, result, plain, contended=not alone)

    def _finish(
        self,
        run: _Run,
        recorder: Recorder | None,
        result: DecodeResult | None,
        plain: dict[str, Any] | None,
        contended: bool,
    ) -> None:
        run_id = run.log.run_id
        was_cancelled = result is None or result.finish_reason == "cancelled"
        if recorder is not None and self._store is not None:
            if plain is not None:
                recorder.add(plain)
            recorder.flush()
            stored = stored_result(result, contended) if result is not None else None
            if was_cancelled:
                self._store.cancel_run(run_id, stored)
            elif stored is not None:
                self._store.finish_run(run_id, stored)
        if result is None:
            run.log.append("cancelled", {})
        else:
            run.log.append("result", result_data(result, plain, contended))

    def _plain_speed(self, run: _Run, target: Target, prompt: list[int], result: DecodeResult) -> dict[str, Any] | None:
        """Plain decoding's speed at the middle of this answer, measured right after it in the same turn.

        The context is the prompt and half of the answer, so that both sides read a cache of about the same length.
        """
        if result.num_steps == 0:
            return None
        settings = replace(
            decode_settings(run.request, Detail.COUNTS), max_new_tokens=PLAIN_TOKENS + 1, stop=(), ignore_eos=True
        )
        context = prompt + result.tokens[: len(result.tokens) // 2]
        times: list[float] = []
        for record in decode(target, PlainDrafter(), [context], settings, cancelled=run.cancel.is_set):
            if isinstance(record, StepTrace):
                times.append(record.step_ms)
        if len(times) < 3:
            return None
        middle = sorted(times)[len(times) // 2]
        return {"kind": "plain", "step_ms": middle, "tokens_per_s": 1000 / middle, "steps": len(times)}

    def _fail(self, run: _Run, error: str) -> None:
        self._unmarked[run.log.run_id] = error
        try:
            self._mark_failed()
        except StoreError as second:
            if str(second) != error:  # else the store is why the run failed, and one sentence says so
                error = f"{error.removesuffix('.')}; nor could the failure be stored: {second}"
        run.log.append("failed", {"error": error})

    def _mark_failed(self) -> None:
        """Write failures to the store; those of a full disk are tried again when the next run comes.

        Raises StoreError for the first that can't be written.
        """
        for run_id, error in list(self._unmarked.items()):
            if self._store is not None:
                with suppress(NotFoundError):  # deleted meanwhile
                    if self._store.get_run(run_id).status in ("queued", "running"):
                        self._store.fail_run(run_id, error)
            del self._unmarked[run_id]

    # -- remembering
    # ----------------------------------------------------------------------------------------------------------

    def _create(self, request: DecodeRequest) -> str:
        if self._store is None:
            return uuid.uuid4().hex[:12]
        prompt = request.raw_prompt if request.raw_prompt is not None else request.messages[-1].content
        return self._store.create_run(
            prompt=prompt,
            drafter_name=request.drafter,
            settings=asked(request),
            messages=[message.model_dump() for message in request.messages] or None,
        )

    def _replayed(self, run_id: str, after: int) -> Iterator[Event]:
        if self._store is None:
            raise HeadwayError(f"There is no run {run_id}.")
        try:
            record = self._store.get_run(run_id)
        except StoreError as error:
            raise HeadwayError(str(error)) from None
        return itertools.dropwhile(lambda event: event.seq <= after, replay(self._store, record))

    def _announce_positions(self) -> None:
        with self._lock:
            waiting = [(self._runs[run_id], place) for place, run_id in enumerate(self._waiting)]
            ahead = int(self._running is not None)
        for run, place in waiting:
            run.log.append("queued", {"position": place + ahead})

    def _forget_old(self) -> None:
        if self._store is None:
            return
        finished = [run_id for run_id, run in self._runs.items() if run.log.over]
        for run_id in finished[: max(0, len(finished) - KEPT_LOGS)]:
            del self._runs[run_id]


@contextmanager
def _kept(recorder: Recorder | None) -> Iterator[None]:
    """When decoding fails in the middle, the steps so far are stored all the same."""
    try:
        yield
    except Exception:
        if recorder is not None:
            with suppress(StoreError):  # the failure itself is the news
                recorder.flush()
        raise
