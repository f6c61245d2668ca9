"""An engine without a model: it replays one recorded run of the built-in target and heads, at a chosen pace, through
the same interface and with the same events.

Runs go one after another, queue, and stop within one step. Whatever is asked for, the recorded steps come; only the
request is the asker's. scripts/record_run.py made the recording. Knows no model.
"""

from __future__ import annotations

import copy
import gzip
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from backend.decoding.records import DecodeResult
from backend.engine.protocol import DecodeRequest, EngineStatus, Event, Race, RaceRequest
from backend.errors import HeadwayError
from backend.trees.shapes import parse_tree

RECORDING = Path(__file__).parent / "fixtures" / "run.json.gz"
LAST_KINDS = ("result", "failed", "cancelled")
Data = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """The data of a run's events: what it started with, its prefill, its steps, its result."""

    started: Data
    prefill: Data
    steps: tuple[Data, ...]
    result: Data


@cache
def recording() -> Recording:
    """The stored run. Its data is shared by all who replay it: copy it before you change it."""
    events = json.loads(gzip.decompress(RECORDING.read_bytes()))
    by_kind: dict[str, list[Data]] = {}
    for event in events:
        by_kind.setdefault(event["kind"], []).append(event["data"])
    return Recording(by_kind["started"][0], by_kind["prefill"][0], tuple(by_kind["step"]), by_kind["result"][0])


@dataclass
class _Run:
    request: DecodeRequest
    events: list[Event] = field(default_factory=list)
    cancelled: bool = False

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1].kind in LAST_KINDS


class ReplayEngine:
    """Args:
    steps_per_s: pace of the steps; None is as fast as it goes.
    loading_s: how long the target seems to load in the first run.
    steps: how many of the recorded steps come; None is all of them.
    hold_after: after so many steps every run waits until `allow` lets it go on.
    echo: the prompt's characters take the place of the recorded text, to see what a page does with them.
    """

    def __init__(
        self,
        steps_per_s: float | None = 30.0,
        loading_s: float = 0.0,
        steps: int | None = None,
        hold_after: int | None = None,
        echo: bool = False,
    ) -> None:
        self.pause_s = 1 / steps_per_s if steps_per_s else 0.0
        self._loading_s = loading_s
        self._steps = recording().steps[:steps]
        self._allowed = hold_after
        self._echo = echo
        self._runs: dict[str, _Run] = {}
        self._races: dict[str, Race] = {}
        self._queue: list[str] = []
        self._loaded: str | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="replay-engine", daemon=True)
        self._worker.start()

    def submit(self, request: DecodeRequest) -> str:
        if "no-such" in request.target:
            raise HeadwayError(f"The target “{request.target}” is neither a folder, a GGUF file nor a known name.")
        if request.tree:
            parse_tree(request.tree)
        with self._changed:
            run_id = f"run-{len(self._runs) + 1:04d}"
            self._runs[run_id] = _Run(request)
            self._queue.append(run_id)
            self._say(run_id, "queued", {"position": len(self._queue) - 1, "request": request.model_dump(mode="json")})
        return run_id

    def race(self, request: RaceRequest) -> Race:
        """The lanes one after another instead of in turns."""
        runs = tuple(self.submit(lane) for lane in request.lanes)
        race = Race(f"race-{len(self._races) + 1:04d}", runs)
        self._races[race.id] = race
        return race

    def allow(self, steps: int | None) -> None:
        """Let runs go on to so many steps; None: to their end."""
        with self._changed:
            self._allowed = steps
            self._changed.notify_all()

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        run = self._runs.get(run_id)
        if run is None:
            raise HeadwayError(f"There is no run “{run_id}”; choose one from the list of recent runs.")
        while True:
            with self._changed:
                seen = after
                moved = self._changed.wait_for(
                    lambda seen=seen: len(run.events) > seen or run.over or self._closed, timeout_s
                )
                fresh = run.events[after:]
            yield from fresh
            after += len(fresh)
            if not moved or (run.over and after >= len(run.events)) or self._closed:
                return

    def cancel(self, run_id: str) -> None:
        if run_id in self._races:
            for lane in self._races[run_id].runs[::-1]:
                self.cancel(lane)
            return
        with self._changed:
            run = self._runs[run_id]
            run.cancelled = True
            if run_id in self._queue[1:]:
                self._queue.remove(run_id)
                self._say(run_id, "cancelled", {})
                self._tell_positions()

    def share(self, run_id: str) -> None:
        with self._changed:
            self._say(run_id, "queued", {"position": 1, "holder": None})

    def status(self) -> EngineStatus:
        with self._changed:
            running = self._queue[0] if self._queue else None
            return EngineStatus("decoding" if running else None, running, tuple(self._queue[1:]), self._loaded, "cpu")

    def machine(self) -> Data:
        return {}

    def poke(self) -> None:
        return None

    def drafters(self, target: str) -> list[dict[str, Any]]:
        """What runs have used so far is measured, as in a real engine."""
        rows = (
            ("builtin-medusa", "Medusa heads", "medusa"),
            ("ngram", "n-gram lookup", "ngram"),
            ("none", "none", "none"),
        )
        with self._changed:
            used = {run.request.drafter for run in self._runs.values() if run.over and run.request.target == target}
        known = [{"spec": s, "name": n, "family": f, "target": "", "tree": []} for s, n, f in rows]
        new = sorted(used - {spec for spec, _, _ in rows})
        known += [{"spec": spec, "name": spec, "family": "used", "target": "", "tree": []} for spec in new]
        return [one | {"cost": 0.04 if one["spec"] in used else None} for one in known]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._worker.join(5)

    def _say(self, run_id: str, kind: str, data: Data) -> None:
        """Under the lock."""
        run = self._runs[run_id]
        run.events.append(Event(len(run.events) + 1, kind, data))
        self._changed.notify_all()

    def _tell_positions(self) -> None:
        for position, run_id in enumerate(self._queue[1:], 1):
            self._say(run_id, "queued", {"position": position})

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                run_id = self._queue[0]
            for kind, data in self._play(self._runs[run_id]):
                with self._changed:
                    if self._closed:
                        return
                    self._say(run_id, kind, data)
            with self._changed:
                self._queue.pop(0)
                self._tell_positions()

    def _play(self, run: _Run) -> Iterator[tuple[str, Data]]:
        request, stored = run.request, recording()
        if self._loaded != request.target and self._loading_s:
            for tenth in range(10):
                yield "loading", {"fraction": tenth / 10, "sentence": f"Loading {request.target}"}
                time.sleep(self._loading_s / 10)
        self._loaded = request.target
        if run.cancelled:
            yield "cancelled", {}
            return
        conditions = stored.started["conditions"] | {"request": request.model_dump(mode="json")}
        yield "started", stored.started | {"conditions": conditions}
        prompt = request.messages[-1].content if request.messages else request.raw_prompt or ""
        prefill = stored.prefill | ({"text": prompt} if self._echo else {})
        yield "prefill", prefill
        steps: list[Data] = []
        for data in self._paced(run):
            steps.append(_echoed(data, prompt) if self._echo else data)
            yield "step", steps[-1]
        yield "result", _result(prefill, steps, run.cancelled)

    def _paced(self, run: _Run) -> Iterator[Data]:
        due = time.monotonic()
        for number, data in enumerate(self._steps):
            if self._held(number):
                due = time.monotonic()
            due += self.pause_s
            time.sleep(max(0.0, due - time.monotonic()))
            if run.cancelled:
                return
            yield data

    def _held(self, number: int) -> bool:
        """Waits until step `number` is allowed; whether there was anything to wait for."""
        with self._changed:
            if self._allowed is None or number < self._allowed:
                return False
            self._changed.wait_for(lambda: self._allowed is None or number < self._allowed or self._closed)
            return True


def _echoed(step: Data, prompt: str) -> Data:
    """The step with the prompt's text in place of all of its own."""
    shown = copy.deepcopy(step)
    shown["text"] = prompt
    for name in ("pieces", "best_pieces"):
        shown["tree"][name] = [prompt[place % len(prompt) :][:20] for place in range(len(shown["tree"][name]))]
    return shown


def _result(prefill: Data, steps: list[Data], cancelled: bool) -> Data:
    """The recorded result, or what it would be had the run ended after these steps."""
    stored = recording()
    if len(steps) == len(stored.steps) and steps[-1]["text"] == stored.steps[-1]["text"]:
        return stored.result
    depths = range(1, max((step["num_tried"] for step in steps), default=0) + 1)
    names = ("num_drafted", "num_accepted", "num_cut", "draft_ms", "verify_ms", "commit_ms")
    total = {name: sum(step[name] for step in steps) for name in names}
    times = total["draft_ms"] + total["verify_ms"] + total["commit_ms"]
    result = DecodeResult(
        row=0,
        prompt_tokens=prefill["prompt_tokens"],
        tokens=[prefill["token"], *(token for step in steps for token in step["tokens"])],
        text=prefill["text"] + "".join(step["text"] for step in steps),
        num_steps=len(steps),
        accepted_per_depth=[sum(step["num_accepted"] >= depth for step in steps) for depth in depths],
        drafted_per_depth=[sum(step["num_tried"] >= depth for step in steps) for depth in depths],
        prefill_ms=prefill["prefill_ms"],
        overhead_ms=sum(step["step_ms"] for step in steps) - times,
        finish_reason="cancelled" if cancelled else "length",
        **total,
    )
    plain = {name: stored.result[name] for name in ("plain_tokens_per_s", "plain_step_ms", "contended")}
    return result.to_dict() | plain
