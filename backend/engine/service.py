"""The engine: owns a device, runs decode requests one after another, tells whoever listens, remembers in the store.

It runs in a thread of the process that made it; callers see only `protocol.Engine`, so moving it into a process of its
own changes nothing for them. Knows no page.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from backend.decoding.loop import decode
from backend.decoding.records import DecodeResult, Detail, StepTrace
from backend.drafters.plain.drafter import PlainDrafter
from backend.engine.conditions import asked, check_request, conditions, context_of, decode_settings, encode_request
from backend.engine.keeper import Keeper, Kept
from backend.engine.lease import Holder, holder_of, try_lease
from backend.engine.machine import Monitor
from backend.engine.protocol import DecodeRequest, EngineStatus, Event
from backend.engine.recorder import Recorder, replay, result_data, stored_result
from backend.engine.remember import register_drafter, register_version
from backend.engine.run_log import RunLog
from backend.engine.turns import Turn, Turns
from backend.engine.workbench import Workbench, give_back_memory, lease_place, offered_drafters
from backend.errors import HeadwayError
from backend.retention import read_retention
from backend.settings import Settings
from backend.targets.target import Target
from storage import NotFoundError, Store, StoreError
from storage.identifiers import new_id

KEPT_LOGS = 64  #: finished runs whose events stay in memory; older ones are read from the store
BATCH = 64  #: stored events handed over at once
PLAIN_TOKENS = 12  #: plain steps measured after a run, for the comparison in the same turn
LAST_WRITES_S = 3.0  #: what runs that wait for the database get when the engine closes

Last = tuple[str, dict[str, Any]]  #: kind and data of a run's last event


@dataclass
class _Run:
    request: DecodeRequest
    log: RunLog
    recorder: Recorder | None  #: None: nothing is remembered past the process
    cancel: threading.Event = field(default_factory=threading.Event)

    @property
    def waits(self) -> bool:
        """Whether it is still to be stored."""
        return self.recorder is not None and self.recorder.waits


class LocalEngine:
    """See protocol.Engine. `store` None: nothing is remembered past the process.

    The device is held while a run is decoded and at no other time; see `lend` and lease.py for who else may have it.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store | None = None,
        device: str | None = None,
        dtype: str | None = None,
        trust_remote_code: bool = False,
        keeper: Keeper | None = None,
    ) -> None:
        self._settings, self._store = settings, store
        self._keeper = keeper or Keeper()
        asked_for = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
        self._started_with: dict[str, str | bool] = {name: value for name, value in asked_for.items() if value}
        self._bench = Workbench(settings, device, dtype, trust_remote_code, measures_costs=True)
        self._side: Workbench | None = None  # on the CPU, for runs beside somebody else who has the device
        self._place = lease_place(device)
        self._monitor = Monitor(settings.home)
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()  # of the runs; never held while asking for turns
        self._turns = Turns(self._other_program, self._tell_place)
        self._unmarked: dict[str, str] = {}  # failed runs that the store doesn't know to have failed, and why
        if store is not None:
            store.mark_interrupted()
            store.interrupt_dead_jobs()
            store.prune_traces(**dict(read_retention(settings.home)))
        self._worker = threading.Thread(target=self._work, name="headway-engine", daemon=True)
        self._worker.start()

    # -- protocol.Engine
    # --------------------------------------------------------------------------------------------------

    def submit(self, request: DecodeRequest) -> str:
        check_request(request)
        run_id = new_id()
        run = _Run(request, RunLog(run_id), self._created(run_id, request))
        with self._lock:
            self._runs[run_id] = run
            self._forget_old()
        try:
            self._turns.add(run_id, request.when_busy == "share")
        except HeadwayError:  # closed meanwhile
            self._end_waiting(run)
            raise
        return run_id

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        return itertools.chain.from_iterable(self.batches(run_id, after, timeout_s))

    def batches(
        self, run_id: str, after: int = 0, timeout_s: float | None = None, gone: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Event]]:
        """`events`, as many at once as there are; ends too when the reader is `gone`."""
        with self._lock:
            run = self._runs.get(run_id)
        if run is not None:
            return run.log.batches(after, timeout_s, gone)
        return _batched(self._replayed(run_id, after))

    def cancel(self, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(run_id)
        if run is None:
            return
        run.cancel.set()
        if self._turns.withdraw(run_id):
            self._end_waiting(run)

    def share(self, run_id: str) -> None:
        self._turns.share(run_id)

    def status(self) -> EngineStatus:
        busy, running, bench = self._turns.busy(), self._turns.running, self._bench
        holder = busy.who if busy else "decoding a prompt" if running else None
        loaded, device = bench.loaded, bench.device
        if self._side is not None and loaded is None:
            loaded, device = self._side.loaded, self._side.device
        queued, job, unstored = self._turns.waiting(), busy.job if busy else None, self._keeper.trouble()
        started = dict(self._started_with)
        return EngineStatus(holder, running, queued, loaded, device, started, job, unstored, self.place)

    @property
    def place(self) -> str:
        """The device that is taken in turns, such as cuda:0."""
        return self._place

    def drafters(self, target: str) -> list[dict[str, Any]]:
        return offered_drafters(self._settings, target, dict(self._bench.costs))

    def machine(self) -> dict[str, Any]:
        return self._monitor.read()

    def poke(self) -> None:
        return None  # no jobs are run here

    def close(self, timeout_s: float = 60.0) -> None:
        self._turns.close()
        for run_id in (self._turns.running, *self._turns.waiting()):
            if run_id is not None:
                self.cancel(run_id)
        self._worker.join(timeout_s)
        self._keeper.close(min(timeout_s, LAST_WRITES_S))

    # -- lending the device
    # ---------------------------------------------------------------------------------------------------

    def lend(self, holder: Callable[[], str], job: str | None = None) -> AbstractContextManager[None]:
        """The device and its memory are the caller's while open; the run that is going on is finished first.

        Args:
            holder: says in a few words what the device is used for now, such as "training small-heads, 12 min left";
                called often and from any thread.
            job: its id, when it is a job.

        Raises HeadwayError when the engine closes while somebody waits for the device.
        """
        return self._turns.lend(holder, job)

    def _other_program(self) -> Holder | None:
        found = holder_of(self._settings.home, self._place)
        ours = found is not None and found.kind == "engine" and found.pid == os.getpid()
        return None if ours else found

    def _tell_place(self, run_id: str, data: dict[str, Any]) -> None:
        with self._lock:
            run = self._runs.get(run_id)
        if run is not None:
            run.log.append("queued", data)

    # -- the worker
    # -----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (turn := self._turns.take(self._bench.loaded is not None, self._side is not None)) is not None:
            if turn == "clear":
                self._bench.clear()
            elif turn == "clear side":
                self._side = None
                give_back_memory()
            else:
                self._have_turn(turn)

    def _have_turn(self, turn: Turn) -> None:
        with self._lock:
            run = self._runs[turn.run_id]
        try:
            last = self._decode_in_turn(turn, run)
        except (HeadwayError, StoreError) as error:
            last = self._fail(run, str(error))
        except Exception as error:  # a fault of ours: the run fails, the engine lives on
            fault = f"Headway failed inside ({type(error).__name__}: {str(error)[:200]}); please report it."
            last = self._fail(run, fault)
        self._turns.done()
        if last is not None:  # said when the device is free again, so that whoever hears it finds it so
            run.log.append(*last)
        elif run.cancel.is_set():
            self.cancel(turn.run_id)

    def _decode_in_turn(self, turn: Turn, run: _Run) -> Last | None:
        """The run's last event; None when another program took the device just before, and the run waits again."""
        if self._unmarked:  # the run itself will tell when the store still can't be written
            self._mark_failed()
        if turn.beside:
            return self._decode(run, self._beside(), contended=True)
        with try_lease(self._settings.home, self._place, "decoding a prompt", "engine") as taken:
            if taken != "busy":
                return self._decode(run, self._bench, contended=taken != "held")
        self._turns.put_back(turn, run.request.when_busy == "share")
        return None

    def _beside(self) -> Workbench:
        """For runs on the CPU beside whoever has the device; kept until the device is free again."""
        if self._side is None:
            dtype = str(self._started_with.get("dtype", "")) if self._place == "cpu" else ""
            trust = bool(self._started_with.get("trust_remote_code"))
            self._side = Workbench(self._settings, "cpu", dtype or None, trust)
        return self._side

    def _decode(self, run: _Run, bench: Workbench, contended: bool) -> Last:
        request, log = run.request, run.log
        target = bench.target(
            request.target,
            lambda fraction, sentence: log.append("loading", {"fraction": fraction, "sentence": sentence}),
            context_of(request),
        )
        drafter, warnings = bench.drafter(request, target)
        prompt = encode_request(request, target)
        settings = decode_settings(request, Detail.FULL, target)
        described = conditions(request, target, drafter)
        recorder = run.recorder
        if recorder is not None:
            recorder.start(described, lambda: self._registered(request, target))
        log.append("started", {"conditions": described, "warnings": warnings, "stored": False})
        result: DecodeResult | None = None
        with _kept(recorder):
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
                if plain is not None and not contended:
                    cost = result.draft_ms / result.num_steps / plain["step_ms"]
                    self._bench.costs[request.target, request.drafter.strip()] = cost
        return self._finish(recorder, result, plain, contended)

    def _finish(
        self, recorder: Recorder | None, result: DecodeResult | None, plain: dict[str, Any] | None, contended: bool
    ) -> Last:
        if recorder is not None:
            if plain is not None:
                recorder.plain(plain)
            was_cancelled = result is None or result.finish_reason == "cancelled"
            stored = stored_result(result, contended) if result is not None else None
            recorder.end("cancelled" if was_cancelled else "finished", stored)
            recorder.settle()
        return ("cancelled", {}) if result is None else ("result", result_data(result, plain, contended))

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

    def _fail(self, run: _Run, error: str) -> Last:
        self._unmarked[run.log.run_id] = error
        try:
            self._keeper.settle(self._mark_failed())
        except StoreError as second:
            if str(second) != error:  # else the store is why the run failed, and one sentence says so
                error = f"{error.removesuffix('.')}; nor could the failure be stored: {second}"
        return "failed", {"error": error}

    def _mark_failed(self) -> Kept:
        """Write failures to the store, after all else; those of a full disk are tried again when the next run comes."""
        kept = Kept("a failed run")

        def write(again: bool) -> None:
            for run_id, error in list(self._unmarked.items()):
                if self._store is not None:
                    with suppress(NotFoundError):  # deleted meanwhile
                        if self._store.get_run(run_id).status in ("queued", "running"):
                            self._store.fail_run(run_id, error)
                self._unmarked.pop(run_id, None)

        self._keeper.put(kept, write)
        return kept

    # -- remembering
    # ----------------------------------------------------------------------------------------------------------

    def _created(self, run_id: str, request: DecodeRequest) -> Recorder | None:
        """The run's way into the store. Raises StoreError when it refuses, HeadwayError when no more can wait."""
        if self._store is None:
            return None
        if not self._keeper.has_room() and (trouble := self._keeper.trouble()):
            raise HeadwayError(f"No more runs can begin, since there is no room for what they yield. {trouble}")
        recorder = Recorder(self._keeper, self._store, run_id)
        prompt = request.raw_prompt if request.raw_prompt is not None else request.messages[-1].content
        recorder.create(
            prompt=prompt,
            drafter_name=request.drafter,
            settings=asked(request),
            messages=[message.model_dump() for message in request.messages] or None,
        )
        recorder.settle()
        return recorder

    def _registered(self, request: DecodeRequest, target: Target) -> tuple[str, str | None]:
        assert self._store is not None
        version_id = register_version(self._store, target)
        return version_id, register_drafter(self._store, request.drafter, version_id)

    def _replayed(self, run_id: str, after: int) -> Iterator[Event]:
        if self._store is None:
            raise HeadwayError(f"There is no run {run_id}.")
        try:
            record = self._store.get_run(run_id)
        except StoreError as error:
            raise HeadwayError(str(error)) from None
        events = list(replay(self._store, record))
        if after > (last := events[-1]).seq:
            # A reader who followed the run live and saw more than was stored, since a process died: it must learn the
            # end, under a number it hasn't seen, even when it asked for one event more than it needs.
            return iter([replace(last, seq=after + 2)])
        return itertools.dropwhile(lambda event: event.seq <= after, events)

    def _end_waiting(self, run: _Run) -> None:
        try:
            if run.recorder is not None:
                run.recorder.end("cancelled", None)
                run.recorder.settle()
        finally:  # whoever waits for the run learns of it, whatever the store says
            run.log.append("cancelled", {})

    def _forget_old(self) -> None:
        if self._store is None:
            return
        finished = [run_id for run_id, run in self._runs.items() if run.log.over and not run.waits]
        for run_id in finished[: max(0, len(finished) - KEPT_LOGS)]:
            del self._runs[run_id]


def _batched(events: Iterator[Event]) -> Iterator[list[Event]]:
    while batch := list(itertools.islice(events, BATCH)):
        yield batch


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
