"""Lending the device: the engine lets go of everything, its queue waits by name, whoever likes shares on the CPU."""

from __future__ import annotations

import threading
import weakref

import pytest

from backend.engine.lease import hold_device
from backend.engine.protocol import Event
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.settings import Settings
from storage import Store
from tests.engine.asking import ask, follow, until
from tests.engine.conftest import behind_a_wire

SENTENCE = "training small-heads, 12 min left"


def queued(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind == "queued"]


def test_a_lent_device_is_empty_and_named_and_the_queue_goes_on_afterwards(
    local_engine: LocalEngine, store: Store
) -> None:
    follow(local_engine, local_engine.submit(ask()))
    weights = weakref.ref(local_engine._bench.target("tiny-llama", lambda *_: None).model.lm_head)
    assert weights() is not None
    with local_engine.lend(lambda: SENTENCE, job="job-1"):
        assert weights() is None
        run_id = local_engine.submit(ask())
        status = local_engine.status()
        assert (status.holder, status.job, status.loaded_target) == (SENTENCE, "job-1", None)
        assert status.queued == (run_id,)
        waiting = list(local_engine.events(run_id, timeout_s=0.05))
        assert [event.data for event in waiting] == [{"position": 0, "holder": SENTENCE}]
    events = follow(local_engine, run_id)
    assert events[-1].kind == "result" and events[-1].data["contended"] is False
    assert local_engine.status().holder is None and not store.get_run(run_id).contended


def test_a_sharer_decodes_at_once_beside_the_holder_and_its_numbers_are_contended(
    local_engine: LocalEngine, store: Store
) -> None:
    with local_engine.lend(lambda: SENTENCE):
        waits = local_engine.submit(ask())
        shares = local_engine.submit(ask(when_busy="share"))
        last = follow(local_engine, shares)[-1]
        assert last.kind == "result" and last.data["contended"] is True
        assert store.get_run(shares).settings["device"].startswith("cpu")
        assert store.get_run(waits).status == "queued"
        costs = {one["spec"]: one["cost"] for one in local_engine.drafters("tiny-llama")}
        assert costs["ngram"] is None  # a number measured beside something else is not kept
    assert follow(local_engine, waits)[-1].data["tokens"] == last.data["tokens"]


def test_a_waiting_run_can_be_told_to_share_after_all(local_engine: LocalEngine, store: Store) -> None:
    with behind_a_wire(local_engine) as remote, local_engine.lend(lambda: SENTENCE):
        run_id = remote.submit(ask())
        assert next(iter(remote.events(run_id))).data["holder"] == SENTENCE
        remote.share(run_id)
        assert follow(remote, run_id)[-1].data["contended"] is True
        remote.share(run_id)  # of a finished run: nothing
    assert store.get_run(run_id).contended


def test_the_run_that_is_going_on_is_finished_before_the_device_is_lent(local_engine: LocalEngine) -> None:
    run_id = local_engine.submit(ask(max_new_tokens=200))
    events = local_engine.events(run_id)
    next(event for event in events if event.kind == "step")
    with local_engine.lend(lambda: SENTENCE):
        assert list(events)[-1].kind == "result" and local_engine.status().running is None


def test_a_waiting_run_can_be_cancelled_while_the_device_is_lent(local_engine: LocalEngine, store: Store) -> None:
    with local_engine.lend(lambda: SENTENCE):
        run_id = local_engine.submit(ask())
        local_engine.cancel(run_id)
        assert follow(local_engine, run_id)[-1].kind == "cancelled"
    assert store.get_run(run_id).status == "cancelled"


def test_another_program_with_the_lease_is_waited_for_by_name(
    settings: Settings, local_engine: LocalEngine, store: Store
) -> None:
    follow(local_engine, local_engine.submit(ask()))
    with hold_device(settings.home, "cpu", "training heads in a terminal", job="job-7"):
        run_id = local_engine.submit(ask())
        assert next(iter(local_engine.events(run_id))).data["holder"] == "training heads in a terminal"
        status = local_engine.status()
        assert (status.holder, status.job) == ("training heads in a terminal", "job-7")
        until(lambda: local_engine.status().loaded_target is None)  # what was loaded goes meanwhile
    events = follow(local_engine, run_id)
    assert events[-1].kind == "result" and not store.get_run(run_id).contended
    assert "loading" in {event.kind for event in events}


def test_an_engine_that_closes_turns_away_whoever_waits_for_the_device(settings: Settings) -> None:
    engine = LocalEngine(settings)
    said: list[str] = []

    def second() -> None:
        try:
            with engine.lend(lambda: "b"):
                said.append("lent")
        except HeadwayError as error:
            said.append(str(error))

    with engine.lend(lambda: "a"):
        waiting = threading.Thread(target=second)
        waiting.start()
        engine.close()
    waiting.join(10)
    assert said == ["The engine is shutting down; start Headway again."]
    with pytest.raises(HeadwayError, match="shutting down"):
        engine.submit(ask())
