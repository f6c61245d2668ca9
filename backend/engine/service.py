"""The engine: owns a device, runs decode requests one after another, tells whoever listens, remembers in the store.

It runs in a thread of the process that made it; callers see only `protocol.Engine`, so moving it into a process of its
own changes nothing for them. Knows no page.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

from backend.engine.conditions import asked, check_request
from backend.engine.keeper import Keeper, Kept
from backend.engine.lease import Holder, holder_of, try_lease
from backend.engine.machine import Monitor
from backend.engine.protocol import LANES, DecodeRequest, EngineStatus, Event, Race, RaceRequest
from backend.engine.race import Benches, check_race, get_ready, naming, take_turns
from backend.engine.recorder import Recorder, replay
from backend.engine.remember import register_drafter, register_version
from backend.engine.run_log import RunLog
from backend.engine.running import Last, Run, Running
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
LAST_WRITES_S = 3.0  #: what runs that wait for the database get when the engine closes


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
        self._runs: OrderedDict[str, Run] = OrderedDict()
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
        run = self._made(request)
        self._queue([run])
        return run.id

    def race(self, request: RaceRequest) -> Race:
        check_race(request)
        race_id = new_id()
        runs: list[Run] = []
        try:
            for letter, lane in zip(LANES, request.lanes, strict=False):
                runs.append(self._made(lane, {"race": race_id, "lane": letter}))
            race = Race(race_id, tuple(run.id for run in runs))
            if (recorder := runs[-1].recorder) is not None:
                recorder.race(race)
                recorder.settle()
        except Exception:
            for run in runs:  # a race of which not all could be stored does not begin
                with suppress(StoreError):
                    self._end_waiting(run)
            raise
        self._queue(runs)
        return race

    def _queue(self, runs: Sequence[Run]) -> None:
        """To the end of the line: a run, or the lanes of a race, which have one turn."""
        with self._lock:
            self._runs |= {run.id: run for run in runs}
            self._forget_old()
        try:
            self._turns.add(runs[0].turn, runs[0].request.when_busy == "share")
        except HeadwayError:  # closed meanwhile
            for run in runs:
                self._end_waiting(run)
            raise

    def _with_turn(self, turn_id: str) -> list[Run]:
        """The runs that wait as `turn_id`: one, or the lanes of a race in their order."""
        with self._lock:
            return [run for run in self._runs.values() if run.turn == turn_id]

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
            meant = [run for run in self._runs.values() if run_id in (run.id, run.turn)]
        for run in meant:
            run.cancel.set()
        for turn_id in {run.turn for run in meant}:
            runs = self._with_turn(turn_id)  # a race that waits goes with its last lane
            if all(run.cancel.is_set() for run in runs) and self._turns.withdraw(turn_id):
                for run in runs:
                    self._end_waiting(run)

    def share(self, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(run_id)
        self._turns.share(run.turn if run is not None else run_id)

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

    def _tell_place(self, turn_id: str, data: dict[str, Any]) -> None:
        for run in self._with_turn(turn_id):
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
        runs = self._with_turn(turn.run_id)
        try:
            told = self._decode_in_turn(turn, runs)
        except Exception as error:
            told = [(run, self._failed(run, error)) for run in runs if not run.log.over]
        self._turns.done()
        for run, last in told or ():  # said when the device is free again, so that whoever hears it finds it so
            run.log.append(*last)
        if told is None:
            for run in runs:
                if run.cancel.is_set():
                    self.cancel(run.id)

    def _decode_in_turn(self, turn: Turn, runs: Sequence[Run]) -> list[tuple[Run, Last]] | None:
        """Last events that are still to be told; None when another program took the device just before, and the turn
        waits again.
        """
        decode = self._decode if len(runs) == 1 and runs[0].race is None else self._decode_race
        if self._unmarked:  # the run itself will tell when the store still can't be written
            self._mark_failed()
        if turn.beside:
            return decode(runs, self._beside(), contended=True)
        with try_lease(self._settings.home, self._place, "decoding a prompt", "engine") as taken:
            if taken != "busy":
                return decode(runs, self._bench, contended=taken != "held")
        self._turns.put_back(turn, runs[0].request.when_busy == "share")
        return None

    def _beside(self) -> Workbench:
        """For runs on the CPU beside whoever has the device; kept until the device is free again."""
        if self._side is None:
            self._side = self._made_bench(beside=True)
        return self._side

    def _made_bench(self, beside: bool) -> Workbench:
        """An empty bench on the device, or on the CPU beside it."""
        device = "cpu" if beside else self._started_with.get("device")
        dtype = self._started_with.get("dtype") if self._place == "cpu" or not beside else None
        trust = bool(self._started_with.get("trust_remote_code"))
        return Workbench(self._settings, str(device) if device else None, str(dtype) if dtype else None, trust)

    def _decode(self, runs: Sequence[Run], bench: Workbench, contended: bool) -> list[tuple[Run, Last]]:
        (run,) = runs
        running = Running(run, bench, self._registered, contended)
        running.start()
        while running.step():
            pass
        plain = running.plain_speed()
        if plain is not None and not contended and (result := running.result) is not None:
            cost = result.draft_ms / result.num_steps / plain["step_ms"]
            self._bench.costs[run.request.target, run.request.drafter.strip()] = cost
        return [(run, running.finish(plain))]

    def _decode_race(self, runs: Sequence[Run], bench: Workbench, contended: bool) -> list[tuple[Run, Last]]:
        """Lanes that end before the last one say so at once; the last one's end is told when the device is free."""
        benches = Benches(bench, lambda: self._made_bench(bench is self._side), [run.request.target for run in runs])
        try:
            return self._raced(runs, benches, contended)
        finally:
            benches.close()

    def _raced(self, runs: Sequence[Run], benches: Benches, contended: bool) -> list[tuple[Run, Last]]:
        lanes: list[Running] = []
        for letter, run in zip(LANES, runs, strict=False):
            with naming(letter):
                lanes.append(Running(run, benches.of(run.request.target), self._registered, contended))
        get_ready(lanes)
        for lane in lanes:
            lane.start()
        told: list[tuple[Run, Last]] = []

        def ended(lane: Running, error: Exception | None) -> None:
            for run, last in told:
                run.log.append(*last)
            try:
                last = lane.finish() if error is None else self._failed(lane.run, error)
            except Exception as refused:
                last = self._failed(lane.run, refused)
            told[:] = [(lane.run, last)]

        take_turns(lanes, ended)
        return told

    def _failed(self, run: Run, error: Exception) -> Last:
        """The last event of a run that failed; a fault of ours ends the run, and the engine lives on."""
        if isinstance(error, HeadwayError | StoreError):
            return self._fail(run, str(error))
        return self._fail(run, f"Headway failed inside ({type(error).__name__}: {str(error)[:200]}); please report it.")

    def _fail(self, run: Run, error: str) -> Last:
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

    def _made(self, request: DecodeRequest, race: dict[str, str] | None = None) -> Run:
        """A run that nobody can find yet, stored as queued. Raises StoreError when the store refuses it, HeadwayError
        when no more can wait.
        """
        run_id = new_id()
        if self._store is None:
            return Run(request, RunLog(run_id), None, race)
        if not self._keeper.has_room() and (trouble := self._keeper.trouble()):
            raise HeadwayError(f"No more runs can begin, since there is no room for what they yield. {trouble}")
        recorder = Recorder(self._keeper, self._store, run_id)
        prompt = request.raw_prompt if request.raw_prompt is not None else request.messages[-1].content
        recorder.create(
            prompt=prompt,
            drafter_name=request.drafter,
            settings=asked(request) | ({"race": race} if race else {}),
            messages=[message.model_dump() for message in request.messages] or None,
        )
        recorder.settle()
        return Run(request, RunLog(run_id), recorder, race)

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

    def _end_waiting(self, run: Run) -> None:
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
