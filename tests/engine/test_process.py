"""The engine's real process: killed in the middle of a run, joined by a second dashboard, closed in order, orphaned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.engine.host import ROOT, EngineHost
from backend.engine.launch import Launch, find
from backend.engine.remote import RemoteEngine
from backend.settings import Settings
from storage import Store, StoreError
from tests.engine.asking import ask, follow, until

LONG = 900  #: tokens of a run that is still going on when something happens to its process


def launch(settings: Settings) -> Launch:
    return Launch(
        str(settings.home),
        str(settings.cache),
        str(settings.database),
        device="cpu",
        beside="tests.engine.beside:Witness",
    )


@contextmanager
def hosted(settings: Settings, died: Callable[[], object] = lambda: None) -> Iterator[tuple[RemoteEngine, list[str]]]:
    said: list[str] = []
    host = EngineHost(launch(settings), os.environ, died=lambda: bool(died()), say=said.append)
    host.start()
    try:
        host.wait_ready()
        yield RemoteEngine(host, start_s=300.0), said  # the busiest machine starts it in that time
    finally:
        host.close()


def witness(settings: Settings) -> list[str]:
    return (settings.home / "witness.txt").read_text(encoding="utf-8").split()


def pid_of(engine: RemoteEngine) -> int:
    return int(engine.machine()["process"]["pid"])


def test_killed_in_the_middle_of_a_run_the_engine_comes_back_and_everybody_is_told(
    settings: Settings, store: Store
) -> None:
    with hosted(settings, died=store.mark_interrupted) as (engine, said):
        first = pid_of(engine)
        assert first != os.getpid() and said[0] == "Loading PyTorch."
        run_id = engine.submit(ask(max_new_tokens=LONG))
        waiting = engine.submit(ask())
        events = engine.events(run_id)
        next(event for event in events if event.kind == "step")
        os.kill(first, signal.SIGKILL)
        last = list(events)[-1]
        assert last.kind == "failed" and "killed, or out of memory" in last.data["error"]
        assert engine.status().holder == "starting the engine again"
        again = engine.submit(ask())  # waits for the new process
        assert follow(engine, again)[-1].kind == "result" and pid_of(engine) != first
        assert [store.get_run(run).status for run in (run_id, waiting)] == ["interrupted"] * 2
        shown = follow(engine, run_id)
        assert shown[-1].kind == "failed" and shown[-1].data["error"] == store.get_run(run_id).error
        going_on = engine.submit(ask(max_new_tokens=LONG))
        next(event for event in engine.events(going_on) if event.kind == "step")
        engine.poke()
        place = find(launch(settings))
        assert place is not None and isinstance(place.place, str)
    assert witness(settings) == ["start", "start", "wake", "close"]
    assert store.get_run(going_on).status == "cancelled"
    assert find(launch(settings)) is None and not Path(place.place).parent.exists()


def test_a_second_dashboard_joins_the_engine_and_takes_over_when_it_ends(settings: Settings, store: Store) -> None:
    with hosted(settings) as (first, _):
        file = next((settings.home / "engine").glob("*.json"))
        assert file.stat().st_mode & 0o077 == 0
        with hosted(settings) as (visitor, told):
            assert pid_of(visitor) == pid_of(first) and told == [
                "Using the engine that already runs for this home folder."
            ]
            assert follow(visitor, visitor.submit(ask()))[-1].kind == "result"
        run_id = first.submit(ask())  # the visitor's leaving did not end it
        assert follow(first, run_id)[-1].kind == "result"
        second = EngineHost(launch(settings), os.environ)
        second.start()
        second.wait_ready()
        heir, before = RemoteEngine(second), pid_of(first)
    try:
        until(lambda: second.state() is None and pid_of(heir) != before)
        assert follow(heir, heir.submit(ask()))[-1].kind == "result"
    finally:
        second.close()


def test_an_engine_whose_dashboard_was_killed_ends_in_order(settings: Settings, store: Store) -> None:
    program = (
        "import os, sys, time; from tests.engine.test_process import *\n"
        "host = EngineHost(launch(Settings(Path(sys.argv[1]), Path(sys.argv[2]))), os.environ)\n"
        "host.start(); host.wait_ready(); print(pid_of(RemoteEngine(host)), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(settings.home), str(settings.cache)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as dashboard:
        assert dashboard.stdout is not None
        pid = int(dashboard.stdout.readline())
        dashboard.kill()
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert witness(settings) == ["start", "close"] and find(launch(settings)) is None


def test_an_engine_that_cannot_start_says_why_in_its_own_sentence(settings: Settings) -> None:
    settings.home.mkdir()
    settings.database.write_text("no database at all, but a text that somebody put here " * 100)
    host = EngineHost(launch(settings), os.environ)
    host.start()
    try:
        with pytest.raises(StoreError, match="is not a Headway database"):
            host.wait_ready()
    finally:
        host.close()
