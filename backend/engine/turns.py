"""Whose turn it is at the device: runs wait in line, one is decoded, and the device can be lent to somebody else.

Knows names of runs and sentences about holders; no model, no store. While the device is lent, or another program of
this machine has it, runs wait; those that would rather share go first and are decoded beside it on the CPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from backend.engine.lease import SOMEBODY, Holder
from backend.errors import HeadwayError

POLL_S = 0.5  #: how often another program's lease is looked at while somebody waits for it or a target is loaded
RETELL_S = 10.0  #: how often a waiting run is told a sentence that only counts down
CLOSING = "The engine is shutting down; start Headway again."


@dataclass(frozen=True)
class Turn:
    """`beside`: decode on the CPU, because somebody else has the device."""

    run_id: str
    beside: bool


@dataclass(frozen=True)
class Busy:
    """Somebody else has the device. `wants_all`: it wants the memory too, so targets have to go."""

    who: str
    job: str | None
    wants_all: bool


Clear = Literal["clear", "clear side"]


class Turns:
    """Thread safe; one worker calls `take` and `done`.

    Args:
        foreign: who of other programs has the device now.
        tell: tells a waiting run its place: {position, holder}.
    """

    def __init__(self, foreign: Callable[[], Holder | None], tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._foreign, self._tell = foreign, tell
        self._changed = threading.Condition()
        self._lending = threading.Lock()
        self._waiting: dict[str, bool] = {}  #: run -> whether it would rather share, in the order they came
        self._told: dict[str, tuple[dict[str, Any], float]] = {}
        self._running: str | None = None
        self._lender: tuple[Callable[[], str], str | None] | None = None
        self._away = False  #: the lender may go ahead: nothing runs, nothing is loaded
        self._refused_until = 0.0
        self._closed = False

    # -- for callers of the engine

    def add(self, run_id: str, shares: bool) -> None:
        """To the end of the line. Raises HeadwayError once closed."""
        busy = self.busy()
        with self._changed:
            if self._closed:
                raise HeadwayError(CLOSING)
            self._waiting[run_id] = shares
            self._announce(busy)
            self._changed.notify_all()

    def withdraw(self, run_id: str) -> bool:
        """Out of the line; False when the run does not wait (any more)."""
        busy = self.busy()
        with self._changed:
            found = self._waiting.pop(run_id, None) is not None
            self._told.pop(run_id, None)
            self._announce(busy)
            return found

    def share(self, run_id: str) -> None:
        """A waiting run no longer waits for whoever has the device."""
        busy = self.busy()
        with self._changed:
            if run_id in self._waiting:
                self._waiting[run_id] = True
                self._announce(busy)
                self._changed.notify_all()

    @property
    def running(self) -> str | None:
        return self._running

    def waiting(self) -> tuple[str, ...]:
        with self._changed:
            return tuple(self._waiting)

    def busy(self) -> Busy | None:
        """Who else has the device now. Asks the lender for its sentence, so it is called without the lock."""
        lender, foreign = self._lender, self._foreign()
        if lender is not None:
            return Busy(_sentence(lender[0]), lender[1] or (foreign.job if foreign else None), wants_all=True)
        if foreign is not None:
            return Busy(foreign.who, foreign.job, foreign.kind != "engine")
        return Busy(SOMEBODY, None, False) if time.monotonic() < self._refused_until else None

    @contextmanager
    def lend(self, holder: Callable[[], str], job: str | None = None) -> Iterator[None]:
        """The device is the caller's while open: it begins when nothing runs and nothing is loaded any more.

        Lenders take turns. Raises HeadwayError when the engine closes meanwhile.
        """
        with self._lending:
            try:
                with self._changed:
                    self._lender, self._away = (holder, job), False
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._away or self._closed)
                    if self._closed:
                        raise HeadwayError(CLOSING)
                yield
            finally:
                with self._changed:
                    self._lender, self._away = None, False
                    self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- for the one worker

    def take(self, loaded: bool, side_loaded: bool) -> Turn | Clear | None:
        """What to do next, as soon as there is something: a run's turn, or let go of what is loaded; None: closed.

        Args:
            loaded: a target is on the device.
            side_loaded: a target is on the CPU, for runs beside a holder.
        """
        while True:
            lender = self._lender
            busy = self.busy()
            with self._changed:
                if self._closed:
                    return None
                if self._lender is not lender:
                    continue  # lent or given back while we looked
                if busy is not None and busy.wants_all and loaded:
                    return "clear"
                if busy is None and side_loaded:
                    return "clear side"
                if self._lender is not None and not self._away:
                    self._away = True
                    self._changed.notify_all()
                if (turn := self._first(busy)) is not None:
                    del self._waiting[turn.run_id]
                    self._told.pop(turn.run_id, None)
                    self._running = turn.run_id
                    self._announce(busy)
                    return turn
                self._announce(busy)
                self._changed.wait(POLL_S if loaded or side_loaded or self._waiting else None)

    def done(self) -> None:
        with self._changed:
            self._running = None

    def put_back(self, turn: Turn, shares: bool) -> None:
        """The device was taken just before this turn began: back to the head of the line."""
        with self._changed:
            self._running = None
            self._refused_until = time.monotonic() + POLL_S  # the holder may not have written its name yet
            self._waiting = {turn.run_id: shares, **self._waiting}

    # -- inside, with the lock

    def _first(self, busy: Busy | None) -> Turn | None:
        for run_id in self._line(busy):
            if busy is None or self._waiting[run_id]:
                return Turn(run_id, beside=busy is not None)
        return None

    def _line(self, busy: Busy | None) -> list[str]:
        """The waiting runs in the order they will be decoded."""
        if busy is None:
            return list(self._waiting)
        return sorted(self._waiting, key=lambda run_id: not self._waiting[run_id])  # a stable sort: sharers first

    def _announce(self, busy: Busy | None) -> None:
        now = time.monotonic()
        for place, run_id in enumerate(self._line(busy)):
            data = {"position": place + (self._running is not None), "holder": busy.who if busy else None}
            before, when = self._told.get(run_id, ({}, 0.0))
            moved = data["position"] != before.get("position") or (data["holder"] is None) != (
                before.get("holder") is None
            )
            if moved or (data != before and now - when >= RETELL_S):
                self._told[run_id] = (data, now)
                self._tell(run_id, data)


def _sentence(holder: Callable[[], str]) -> str:
    try:
        return holder()
    except Exception:  # a lender that can't say what it does still has the device
        return SOMEBODY
