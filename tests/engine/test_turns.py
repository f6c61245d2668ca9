"""Turns at the device: the line, sharing beside a holder, lending. No engine, no model: a worker is played by hand."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from backend.engine.lease import Holder
from backend.engine.turns import Turn, Turns
from backend.errors import HeadwayError


class Played:
    """Turns with another program that can be put in, and what every run was told."""

    def __init__(self) -> None:
        self.foreign: Holder | None = None
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.turns = Turns(lambda: self.foreign, lambda run_id, data: self.told.setdefault(run_id, []).append(data))

    def take(self, loaded: bool = False, side: bool = False) -> Any:
        """What the worker would do next; None when it would wait."""
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.append(self.turns.take(loaded, side)), daemon=True)
        asking.start()
        asking.join(0.05)
        return found[0] if found else None


def holder(kind: str = "command") -> Holder:
    return Holder("training in a terminal", kind, None, 0.0, "here/1/1", 1)


def test_runs_come_in_order_and_are_told_their_place() -> None:
    played = Played()
    for name in ("a", "b", "c"):
        played.turns.add(name, shares=False)
    assert [played.told[name][0]["position"] for name in "abc"] == [0, 1, 2]
    assert played.turns.take(False, False) == Turn("a", beside=False) and played.turns.running == "a"
    assert played.turns.withdraw("b") and not played.turns.withdraw("a")
    played.turns.done()
    assert played.turns.take(False, False) == Turn("c", beside=False)
    assert [told["position"] for told in played.told["c"]] == [2, 1]


def test_while_the_device_is_lent_runs_wait_but_sharers_go_beside_it() -> None:
    played = Played()
    lent, back = threading.Event(), threading.Event()

    def lender() -> None:
        with played.turns.lend(lambda: "training small-heads, 12 min left", "job-1"):
            lent.set()
            back.wait(10)

    borrowing = threading.Thread(target=lender)
    borrowing.start()
    while played.turns.busy() is None:
        time.sleep(0.001)
    played.turns.add("waits", shares=False)
    played.turns.add("shares", shares=True)
    assert played.turns.take(loaded=True, side_loaded=False) == "clear" and not lent.is_set()
    assert played.turns.take(loaded=False, side_loaded=False) == Turn("shares", beside=True) and lent.wait(10)
    assert played.told["waits"][-1] == {"position": 1, "holder": "training small-heads, 12 min left"}
    busy = played.turns.busy()
    assert busy is not None and busy.job == "job-1"
    played.turns.done()
    back.set()
    borrowing.join(10)
    assert played.turns.take(loaded=False, side_loaded=True) == "clear side"
    assert played.turns.take(loaded=False, side_loaded=False) == Turn("waits", beside=False)


def test_another_program_with_the_device_is_waited_for_and_its_memory_needs_are_respected() -> None:
    played = Played()
    played.turns.add("a", shares=False)
    played.foreign = holder()
    assert played.turns.take(loaded=True, side_loaded=False) == "clear"
    played.foreign = holder(kind="engine")  # a prompt of another dashboard is over soon: nothing is unloaded for it
    taken: list[Any] = []
    worker = threading.Thread(target=lambda: taken.append(played.turns.take(loaded=True, side_loaded=False)))
    worker.start()
    worker.join(0.05)
    assert worker.is_alive() and played.told["a"][-1]["holder"] == "training in a terminal"
    played.foreign = None
    worker.join(10)
    assert taken == [Turn("a", beside=False)]


def test_a_turn_that_came_too_late_keeps_its_place() -> None:
    played = Played()
    played.turns.add("a", shares=False)
    played.turns.add("b", shares=False)
    turn = played.turns.take(False, False)
    assert isinstance(turn, Turn)
    played.turns.put_back(turn, shares=False)
    assert played.turns.waiting() == ("a", "b") and played.turns.running is None
    assert played.turns.take(False, False) == turn  # a moment later


def test_closing_ends_the_worker_and_whoever_waits_to_borrow() -> None:
    played = Played()
    failed: list[str] = []

    def borrow() -> None:
        try:
            with played.turns.lend(lambda: "x"):
                pass
        except HeadwayError as error:
            failed.append(str(error))

    borrowing = threading.Thread(target=borrow)
    borrowing.start()
    played.turns.close()
    borrowing.join(10)
    assert failed == ["The engine is shutting down; start Headway again."]
    assert played.turns.take(False, False) is None
    with pytest.raises(HeadwayError, match="shutting down"):
        played.turns.add("late", shares=False)


def test_a_lender_that_cannot_say_what_it_does_still_has_the_device() -> None:
    played = Played()
    asked: list[Any] = []

    def worker() -> None:
        asked.append(played.turns.take(False, False))

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    with played.turns.lend(lambda: 1 / 0):  # type: ignore[arg-type, return-value]
        busy = played.turns.busy()
        assert busy is not None and busy.who == "another program"
    played.turns.close()
    thread.join(10)
    assert asked == [None]
