"""One decode run on its way: opened on a bench, decoded step by step, told to its readers and to the store, ended.

A run alone and a lane of a race are the same here: when the next step is taken is the caller's. Knows the loop, a run's
log and its recorder; no queue and no lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from backend.decoding.loop import decode
from backend.decoding.records import DecodeResult, Detail, StepTrace
from backend.drafters.plain.drafter import PlainDrafter
from backend.engine.conditions import conditions, context_of, decode_settings, encode_request
from backend.engine.protocol import DecodeRequest
from backend.engine.recorder import Recorder, result_data, stored_result
from backend.engine.run_log import RunLog
from backend.engine.workbench import Workbench
from backend.targets.target import Target
from storage import StoreError

PLAIN_TOKENS = 12  #: plain steps measured after a run, for the comparison in the same turn

Last = tuple[str, dict[str, Any]]  #: kind and data of a run's last event
Register = Callable[[DecodeRequest, Target], tuple[str, str | None]]  #: gives the ids of version and drafter


@dataclass
class Run:
    """A request with all that is known of it.

    Args:
        recorder: None: nothing is remembered past the process.
        race: {race, lane} of a lane; part of its conditions, since other lanes decoded between its steps.
    """

    request: DecodeRequest
    log: RunLog
    recorder: Recorder | None
    race: dict[str, str] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        return self.log.run_id

    @property
    def turn(self) -> str:
        """What it waits for the device as: itself, or its race."""
        return self.race["race"] if self.race is not None else self.id

    @property
    def waits(self) -> bool:
        """Whether it is still to be stored."""
        return self.recorder is not None and self.recorder.waits


class Running:
    """A run that has its turn: opening it loads target and drafter, `step` takes one step, `finish` ends it.

    `clock_ms`: the time of its own steps, as `tokens_per_s` counts it: without prefill, and without what happens
    between two calls of `step`. Every call raises HeadwayError or StoreError with one sentence.
    """

    def __init__(self, run: Run, bench: Workbench, register: Register, contended: bool) -> None:
        request, log = run.request, run.log
        self.run, self.contended = run, contended
        self.clock_ms = 0.0
        self.result: DecodeResult | None = None
        self.target = bench.target(
            request.target,
            lambda fraction, sentence: log.append("loading", {"fraction": fraction, "sentence": sentence}),
            context_of(request),
        )
        self.drafter, self._warnings = bench.drafter(request, self.target)
        self.prompt = encode_request(request, self.target)
        self._register = register
        settings = decode_settings(request, Detail.FULL, self.target)
        self._records = decode(self.target, self.drafter, [self.prompt], settings, cancelled=run.cancel.is_set)

    def start(self) -> None:
        """Say and store what it runs under."""
        run = self.run
        described = conditions(run.request, self.target, self.drafter) | ({"race": run.race} if run.race else {})
        if run.recorder is not None:
            run.recorder.start(described, lambda: self._register(run.request, self.target))
        run.log.append("started", {"conditions": described, "warnings": self._warnings, "stored": False})

    def step(self) -> bool:
        """Read the prompt, or take the next step; False when it is over."""
        recorder = self.run.recorder
        with kept(recorder):
            record = next(self._records, None)
            if record is None or isinstance(record, DecodeResult):
                self.result = record
                return False
            if isinstance(record, StepTrace):
                self.clock_ms += record.step_ms
            data = record.to_dict()
            self.run.log.append(record.kind, data)
            if recorder is not None:
                recorder.add(data)
        return True

    @property
    def was_cancelled(self) -> bool:
        return self.result is None or self.result.finish_reason == "cancelled"

    def finish(self, plain: dict[str, Any] | None = None) -> Last:
        """Store the end; returns the last event, which is the caller's to tell. `plain`: see `plain_speed`."""
        recorder, result = self.run.recorder, self.result
        if recorder is not None:
            if plain is not None:
                recorder.plain(plain)
            stored = stored_result(result, self.contended) if result is not None else None
            recorder.end("cancelled" if self.was_cancelled else "finished", stored)
            recorder.settle()
        return ("cancelled", {}) if result is None else ("result", result_data(result, plain, self.contended))

    def plain_speed(self) -> dict[str, Any] | None:
        """Plain decoding's speed at the middle of this answer, measured right after it in the same turn; None for a run
        that drafted nothing or did not end by itself.

        The context is the prompt and half of the answer, so that both sides read a cache of about the same length.
        """
        result = self.result
        if result is None or self.was_cancelled or self.drafter.family == "none" or result.num_steps == 0:
            return None
        settings = replace(
            decode_settings(self.run.request, Detail.COUNTS), max_new_tokens=PLAIN_TOKENS + 1, stop=(), ignore_eos=True
        )
        context = self.prompt + result.tokens[: len(result.tokens) // 2]
        times: list[float] = []
        with kept(self.run.recorder):
            for record in decode(self.target, PlainDrafter(), [context], settings, cancelled=self.run.cancel.is_set):
                if isinstance(record, StepTrace):
                    times.append(record.step_ms)
        if len(times) < 3:
            return None
        middle = sorted(times)[len(times) // 2]
        return {"kind": "plain", "step_ms": middle, "tokens_per_s": 1000 / middle, "steps": len(times)}


@contextmanager
def kept(recorder: Recorder | None) -> Iterator[None]:
    """When decoding fails in the middle, the steps so far are stored all the same."""
    try:
        yield
    except Exception:
        if recorder is not None:
            with suppress(StoreError):  # the failure itself is the news
                recorder.flush()
        raise
