"""A database that goes away while prompts are decoded: decoding goes on, and everything is stored when it is back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from backend.decoding.loop import decode
from backend.engine import running
from backend.engine.keeper import Keeper
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.settings import Settings
from storage import NotFoundError, Store, StoreError, UnavailableError
from tests.engine.asking import ask, follow, until
from tests.storage import postgres
from tests.support.store_faults import full_disk, locked


@dataclass
class Site:
    """A store, and how it is taken away for as long as a block lasts."""

    store: Store
    away: Callable[[], AbstractContextManager[None]]


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Site]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            settings.home.mkdir(parents=True)
            store = stack.enter_context(Store.open(settings.database, busy_timeout_s=0.1))
            yield Site(store, lambda: locked(store))
            return
        pytest.importorskip("psycopg", reason="needs the PostgreSQL driver: pip install 'psycopg[binary]'")
        try:
            server = stack.enter_context(postgres.own_server())
        except postgres.Unavailable as reason:
            postgres.skip(str(reason))

        @contextmanager
        def stopped() -> Iterator[None]:
            server.stop()
            try:
                yield
            finally:
                server.start()

        yield Site(stack.enter_context(Store.open(server.url, busy_timeout_s=2.0)), stopped)


class Held:
    """Holds decoding up after so many records, until `go` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self._after = after
        monkeypatch.setattr(running, "decode", self._decode)

    def _decode(self, *given: Any, **named: Any) -> Iterator[Any]:
        for count, record in enumerate(decode(*given, **named)):
            if count == self._after:
                self.reached.set()
                assert self.go.wait(60)
            yield record


def is_over(store: Store, run_id: str) -> bool:
    try:
        return store.get_run(run_id).status not in ("queued", "running")
    except NotFoundError:  # what it begins with is about to be stored
        return False


def is_sentence(text: str | None) -> bool:
    return text is not None and text.endswith(".") and "\n" not in text


def test_a_run_goes_on_while_the_database_is_away_and_is_stored_whole_when_it_is_back(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = LocalEngine(settings, site.store)
    held = Held(monkeypatch, after=70)  # one chunk is stored, the next one has begun
    early = engine.submit(ask(drafter="none", max_new_tokens=150))
    assert held.reached.wait(60)
    with site.away():
        held.go.set()
        live = follow(engine, early)
        late = engine.submit(ask("begun while it was away"))
        cancelled = engine.submit(ask("cancelled at once"))
        engine.cancel(cancelled)
        others = [follow(engine, run_id) for run_id in (late, cancelled)]
        assert live[-1].kind == others[0][-1].kind == "result" and others[1][-1].kind in ("cancelled", "result")
        told = engine.status().unstored
        assert is_sentence(told) and "3 runs are kept in memory until the database is back" in str(told)
        assert [event.data for event in follow(engine, early)] == [event.data for event in live]  # still shown
    until(lambda: engine.status().unstored is None and is_over(site.store, cancelled))  # the last of them
    engine.close()
    for run_id, events in zip((early, late), (live, others[0]), strict=True):
        record = site.store.get_run(run_id)
        assert record.status == "finished" and record.text == events[-1].data["text"] and record.notes == ""
        steps = [event.data for event in events if event.kind in ("prefill", "step")]
        assert [one for one in site.store.steps(run_id) if one["kind"] != "plain"] == steps
    assert site.store.get_run(cancelled).status in ("cancelled", "finished")
    assert site.store.count_runs() == 3


def test_what_has_no_room_is_left_out_and_said_and_no_more_runs_begin(settings: Settings, site: Site) -> None:
    engine = LocalEngine(settings, site.store, keeper=Keeper(room_bytes=40_000))
    with site.away():
        run_id = engine.submit(ask(drafter="none", max_new_tokens=300))
        last = follow(engine, run_id)[-1]
        assert last.kind == "result" and last.data["num_steps"] == 299
        told = engine.status().unstored
        assert is_sentence(told) and "without the steps for which 40 kB had no room" in str(told)
        with pytest.raises(HeadwayError, match="No more runs can begin"):
            engine.submit(ask())
    until(lambda: engine.status().unstored is None and is_over(site.store, run_id))
    record = site.store.get_run(run_id)
    assert (record.status, record.text, record.num_steps) == ("finished", last.data["text"], 299)
    stored = site.store.num_stored_steps(run_id)
    assert 0 < stored < 300 and f"its last {300 - stored} steps had no room in memory" in record.notes
    assert follow(engine, engine.submit(ask()))[-1].kind == "result"  # there is room again
    engine.close()


def test_a_database_that_stays_away_keeps_nobody_from_closing(
    settings: Settings, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    engine = LocalEngine(settings, site.store)
    with site.away():
        run_id = engine.submit(ask())
        assert follow(engine, run_id)[-1].kind == "result"
        engine.close(timeout_s=0.5)
        assert f"{run_id} could not be stored" in caplog.text
    assert site.store.count_runs() == 0


@pytest.mark.parametrize("name", ["create_run", "start_run", "append_steps", "finish_run"])
def test_a_write_whose_answer_was_lost_is_not_made_twice(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real, lost = getattr(store, name), []

    def losing(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        if not lost:
            lost.append(name)
            raise UnavailableError("The connection broke.")
        return found

    monkeypatch.setattr(store, name, losing)
    engine = LocalEngine(settings, store)
    run_id = engine.submit(ask())
    events = follow(engine, run_id)
    until(lambda: engine.status().unstored is None and is_over(store, run_id))
    engine.close()
    assert lost == [name] and store.get_run(run_id).status == "finished" and store.count_runs() == 1
    steps = [event.data for event in events if event.kind in ("prefill", "step")]
    assert [one for one in store.steps(run_id) if one["kind"] != "plain"] == steps


def test_a_disk_that_is_full_refuses_one_run_and_keeps_no_other_waiting(settings: Settings, store: Store) -> None:
    engine = LocalEngine(settings, store)
    with full_disk(store, room=0), pytest.raises(StoreError, match="is full"):
        engine.submit(ask("x" * 100_000))
    assert engine.status().unstored is None
    run_id = engine.submit(ask())
    assert follow(engine, run_id)[-1].kind == "result" and store.get_run(run_id).status == "finished"
    engine.close()
