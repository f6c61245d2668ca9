"""What only an engine behind a wire can do wrong: strangers, readers that leave, errors, a process that goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from backend.engine import wire
from backend.engine.protocol import Event
from backend.engine.remote import RemoteEngine
from backend.engine.server import EngineServer
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError, MismatchError
from storage import Store, StoreError
from storage.errors import NotFoundError
from tests.engine.asking import ask, follow
from tests.engine.conftest import Fixed, behind_a_wire

KEY = b"another key"


def streams() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "headway-caller"]


def test_the_wire_brings_the_same_events_as_the_engine_itself(local_engine: LocalEngine) -> None:
    text = "${x} \ud83e\udd8a <b> \u0000 “é” 🦊"
    with behind_a_wire(local_engine) as remote:
        run_id = remote.submit(ask(text.encode("utf-16", "surrogatepass").decode("utf-16"), stop=("\u0000",)))
        assert list(remote.events(run_id)) == list(local_engine.events(run_id))
        assert remote.status() == local_engine.status()
        assert remote.drafters("tiny-llama") == local_engine.drafters("tiny-llama")
        assert remote.machine()["process"]["pid"] == local_engine.machine()["process"]["pid"]


@pytest.mark.parametrize(
    "error",
    [HeadwayError("a"), MismatchError("b"), StoreError("c"), NotFoundError("d"), ValueError("e")],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_kind_and_sentence(
    local_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*_: object) -> list[object]:
        raise error

    monkeypatch.setattr(local_engine, "drafters", failing)
    with behind_a_wire(local_engine) as remote, pytest.raises(type(error)) as caught:
        remote.drafters("x")
    assert type(caught.value) is type(error) and str(caught.value) == str(error)


def test_a_fault_of_the_engine_is_a_fault_here_and_breaks_nothing(
    local_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "drafters", lambda target: {}["nothing"])
    with behind_a_wire(local_engine) as remote:
        with pytest.raises(RuntimeError, match="KeyError"):
            remote.drafters("x")
        assert follow(remote, remote.submit(ask()))[-1].kind == "result"


def test_whoever_lacks_the_key_gets_nothing(local_engine: LocalEngine) -> None:
    door = wire.Door(KEY)
    server = EngineServer(local_engine, door)
    try:
        stranger = RemoteEngine(Fixed(wire.Address(server.address.place, b"guessed")))
        with pytest.raises(HeadwayError, match="process ended"):
            stranger.submit(ask())
        assert local_engine.status().queued == () and local_engine.status().running is None
        assert RemoteEngine(Fixed(server.address)).status() == local_engine.status()
    finally:
        server.close()


def test_a_call_that_does_not_exist_is_refused(local_engine: LocalEngine) -> None:
    with behind_a_wire(local_engine) as remote, pytest.raises(ValueError, match="no call"):
        remote._call("close")


def test_a_reader_that_leaves_is_let_go_of_and_silence_ends_one_with_patience(
    local_engine: LocalEngine, store: Store
) -> None:
    with behind_a_wire(local_engine) as remote, local_engine.lend(lambda: "training"):
        run_id = remote.submit(ask())
        assert [event.kind for event in remote.events(run_id, timeout_s=0.05)] == ["queued"]
        reading = remote.events(run_id)
        assert next(reading).kind == "queued"
        assert streams()
        reading.close()  # type: ignore[attr-defined]
        give_up = time.monotonic() + 30
        while streams() and time.monotonic() < give_up:
            time.sleep(0.02)
        assert not streams()


def test_a_process_that_goes_away_ends_its_runs_for_their_readers(local_engine: LocalEngine) -> None:
    class Cut(LocalEngine):
        def __init__(self) -> None:
            pass

        def batches(self, *_: object) -> Iterator[list[Event]]:  # type: ignore[override]
            yield [Event(3, "step", {"step": 1})]
            raise BrokenPipeError  # as if the process had been killed between two steps

    with behind_a_wire(Cut()) as remote:
        events = list(remote.events("any", after=2))
    assert [(event.seq, event.kind) for event in events] == [(3, "step"), (4, "failed")]
    assert events[-1].data == {"error": "The engine's process ended."}
