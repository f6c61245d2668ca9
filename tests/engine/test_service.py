"""The engine end to end on the tiny target: events, queue, cancelling, failures, the store, replay after a restart."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from backend.engine.lease import device_lease
from backend.engine.protocol import DecodeRequest, Event, Message
from backend.engine.service import LocalEngine
from backend.engine.workbench import lease_place
from backend.errors import HeadwayError
from backend.retention import Retention, write_retention
from backend.settings import Settings
from storage import Store, StoreError
from tests.support.store_faults import full_disk, read_only


def ask(text: str = "hello hello hello", **values: Any) -> DecodeRequest:
    defaults: dict[str, Any] = {"target": "tiny-llama", "drafter": "ngram", "max_new_tokens": 24}
    return DecodeRequest(messages=(Message(role="user", content=text),), **(defaults | values))


def kinds(events: list[Event]) -> list[str]:
    """The kinds in order, repeats of one kind once."""
    names = [event.kind for event in events]
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def test_a_run_yields_its_events_in_order_and_is_stored_whole(engine: LocalEngine, store: Store) -> None:
    run_id = engine.submit(ask())
    events = list(engine.events(run_id))
    assert kinds(events) == ["queued", "loading", "started", "prefill", "step", "result"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    steps = [event.data for event in events if event.kind == "step"]
    result = events[-1].data
    assert result["num_steps"] == len(steps) and result["plain_tokens_per_s"] > 0
    assert all(step["tree"] is not None for step in steps)
    shown = "".join(event.data["text"] for event in events if event.kind in ("prefill", "step"))
    assert shown == result["text"]
    record = store.get_run(run_id)
    assert record.status == "finished" and record.num_tokens == len(result["tokens"]) == 24
    assert record.settings["request"]["drafter"] == "ngram" and record.settings["tree_paths"]
    assert record.version_id == store.list_versions()[0].id


def test_a_restarted_engine_replays_the_same_steps(settings: Settings, store: Store) -> None:
    first = LocalEngine(settings, store)
    run_id = first.submit(ask())
    before = list(first.events(run_id))
    first.close()
    second = LocalEngine(settings, store)
    after = list(second.events(run_id))
    second.close()
    live = [event.data for event in before if event.kind in ("prefill", "step")]
    assert [event.data for event in after if event.kind in ("prefill", "step")] == live
    for key in ("tokens", "text", "num_steps", "tokens_per_s", "plain_tokens_per_s", "accepted_per_depth"):
        assert after[-1].data[key] == before[-1].data[key]


def test_readers_may_start_anywhere_and_follow_together(engine: LocalEngine) -> None:
    run_id = engine.submit(ask())
    seen: list[list[int]] = [[], [], []]

    def follow(place: int) -> None:
        seen[place] = [event.seq for event in engine.events(run_id, after=2 * place)]

    readers = [threading.Thread(target=follow, args=(place,)) for place in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(timeout=60)
    last = seen[0][-1]
    assert seen == [list(range(2 * place + 1, last + 1)) for place in range(3)]


def test_two_users_queue_with_their_position_shown(engine: LocalEngine) -> None:
    runs = [engine.submit(ask(f"number {i}")) for i in range(3)]
    positions = []
    for run_id in runs:
        positions.append([event.data["position"] for event in engine.events(run_id) if event.kind == "queued"])
    assert positions[0][0] <= 1  # the first may have started at once
    assert positions[2][0] >= positions[1][0] >= 1 and positions[2][-1] <= 1
    assert all(first >= second for row in positions for first, second in itertools.pairwise(row))


def test_cancelling_stops_a_running_and_a_waiting_run(engine: LocalEngine, store: Store) -> None:
    long = engine.submit(ask(max_new_tokens=400))
    waiting = engine.submit(ask("second"))
    for event in engine.events(long):
        if event.kind == "step":
            engine.cancel(waiting)
            engine.cancel(long)
    assert next(iter(reversed(list(engine.events(waiting))))).kind == "cancelled"
    last = list(engine.events(long))[-1]
    assert last.kind == "result" and last.data["finish_reason"] == "cancelled"
    assert store.get_run(long).status == store.get_run(waiting).status == "cancelled"
    assert store.get_run(long).text == last.data["text"]
    engine.cancel(long)  # once more does nothing


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"text": "  "}, "The prompt is empty"),
        ({"temperature": 1.0}, "greedy rule"),
        ({"tree": "[[0,1]]"}, "has no parent"),
        ({"tree": "bush"}, "Unknown tree"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_refused_at_the_door(
    engine: LocalEngine, store: Store, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        engine.submit(ask(**values))
    assert store.count_runs() == 0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"target": "no-such-model-here"}, "There is no target"),
        ({"drafter": "nobody"}, "Unknown drafter"),
        ({"drafter": "none", "tree": "chain-2"}, "drafts nothing"),
        ({"max_new_tokens": 8192}, "shorten the prompt"),
        ({"banned_tokens": (9999,)}, "not in the vocabulary"),
    ],
)
def test_what_shows_later_fails_the_run_with_one_sentence_and_the_engine_lives_on(
    engine: LocalEngine, store: Store, values: dict[str, Any], sentence: str
) -> None:
    run_id = engine.submit(ask(**values))
    last = list(engine.events(run_id))[-1]
    assert last.kind == "failed" and sentence in last.data["error"] and "\n" not in last.data["error"]
    assert store.get_run(run_id).status == "failed"
    again = engine.submit(ask())
    assert list(engine.events(again))[-1].kind == "result"


def test_hostile_text_comes_back_unchanged(engine: LocalEngine, store: Store) -> None:
    text = "${alert(1)} <script>x</script> 🦊 \u0000 <|im_end|> \"'`"
    run_id = engine.submit(ask(text))
    assert list(engine.events(run_id))[-1].kind == "result"
    assert store.get_run(run_id).prompt == text


def test_a_run_without_the_device_to_itself_is_contended(settings: Settings, engine: LocalEngine, store: Store) -> None:
    with device_lease(settings.home, "cpu") as alone:
        assert alone
        crowded = engine.submit(ask(when_busy="share"))
        assert list(engine.events(crowded))[-1].data["contended"] is True
    free = engine.submit(ask())
    assert list(engine.events(free))[-1].data["contended"] is False
    assert store.get_run(crowded).contended and not store.get_run(free).contended


def test_runs_of_a_dead_process_are_marked_when_an_engine_starts(settings: Settings, store: Store) -> None:
    run_id = store.create_run(prompt="x", drafter_name="ngram", settings={}, owner="nowhere:1:1")
    store.start_run(run_id)
    store.mark_interrupted(lambda owner: False)
    engine = LocalEngine(settings, store)
    last = list(engine.events(run_id))[-1]
    engine.close()
    assert last.kind == "failed" and "stopped before the run ended" in last.data["error"]


def test_the_oldest_steps_are_dropped_past_the_limit_and_their_runs_stay(settings: Settings, store: Store) -> None:
    first = LocalEngine(settings, store)
    run_id = first.submit(ask())
    list(first.events(run_id))
    first.close()
    write_retention(settings.home, Retention(max_bytes=1))
    second = LocalEngine(settings, store)
    (settings.home / "retention.json").unlink()
    events = list(second.events(run_id))
    second.close()
    assert [event.kind for event in events] == ["started", "result"]
    assert store.get_run(run_id).traces_pruned and events[-1].data["num_steps"] > 0


def test_drafters_come_with_their_measured_cost_once_the_target_is_loaded(engine: LocalEngine) -> None:
    before = {one["spec"]: one["cost"] for one in engine.drafters("tiny-llama")}
    assert before["ngram"] is None and engine.status().device == lease_place(None)
    list(engine.events(engine.submit(ask())))
    after = {one["spec"]: one["cost"] for one in engine.drafters("tiny-llama")}
    assert 0 < after["ngram"] < 5 and after["none"] is None and engine.status().device == "cpu"
    assert engine.status().loaded_target == "tiny-llama" and engine.status().holder is None


def test_an_unknown_run_is_one_sentence(engine: LocalEngine) -> None:
    with pytest.raises(HeadwayError):
        list(engine.events("nothing"))


def test_an_engine_without_a_store_decodes_all_the_same(settings: Settings) -> None:
    engine = LocalEngine(settings)
    assert list(engine.events(engine.submit(ask())))[-1].kind == "result"
    engine.close()


def test_drafters_that_were_used_are_offered_with_their_cost(engine: LocalEngine) -> None:
    list(engine.events(engine.submit(ask(drafter="draft:tiny-llama:1", max_new_tokens=8))))
    used = {one["spec"]: one for one in engine.drafters("tiny-llama")}["draft:tiny-llama:1"]
    assert used["cost"] > 0 and used["name"] == "draft:tiny-llama:1"
    assert "draft:tiny-llama:1" not in {one["spec"] for one in engine.drafters("tiny-qwen3")}
    specs = [one["spec"] for one in engine.drafters("tiny-llama")]
    assert len(specs) == len(set(specs))


def test_the_conditions_say_how_narrow_a_pass_is_and_the_status_how_it_was_started(
    settings: Settings, store: Store
) -> None:
    engine = LocalEngine(settings, store, device="cpu", trust_remote_code=True)
    started = next(event for event in engine.events(engine.submit(ask())) if event.kind == "started")
    assert started.data["conditions"]["min_width"] >= 1
    assert engine.status().started_with == {"device": "cpu", "trust_remote_code": True}
    engine.close()


@pytest.mark.parametrize("drafter", ["ngram", "draft:tiny-llama:1"])
def test_a_depth_of_zero_drafts_nothing(engine: LocalEngine, drafter: str) -> None:
    events = list(engine.events(engine.submit(ask(drafter=drafter, max_depth=0, max_new_tokens=8))))
    steps = [event.data for event in events if event.kind == "step"]
    assert len(steps) == 7 and not any(step["num_drafted"] for step in steps)
    started = next(event for event in events if event.kind == "started")
    assert "nothing is drafted" in started.data["warnings"][-1]


def _everything(store: Store) -> list[Any]:
    return [(store.get_run(run.id), store.steps(run.id)) for run in store.list_runs()]


def test_a_disk_that_fills_up_ends_the_run_with_one_sentence_and_costs_nothing_stored(
    engine: LocalEngine, store: Store
) -> None:
    list(engine.events(engine.submit(ask())))
    before = _everything(store)
    with full_disk(store, room=6):
        run_id = engine.submit(ask(max_new_tokens=400))
        events = list(engine.events(run_id))
        assert kinds(events)[-2:] == ["step", "failed"]
        sentence = events[-1].data["error"]
        assert "is full; free some space" in sentence and sentence.endswith(".") and "\n" not in sentence
        with pytest.raises(StoreError, match="is full"):
            engine.submit(ask("x" * 100_000))
    assert [pair for pair in _everything(store) if pair[0].id != run_id] == before
    list(engine.events(engine.submit(ask())))  # space was freed: the next run is stored, the failed one marked
    assert store.get_run(run_id).status == "failed" and store.get_run(run_id).error == sentence
    assert [run.status for run in store.list_runs()] == ["finished", "failed", "finished"]


def test_a_store_that_can_only_be_read_refuses_runs_with_one_sentence_and_still_shows_the_old_ones(
    settings: Settings, store: Store
) -> None:
    first = LocalEngine(settings, store)
    run_id = first.submit(ask())
    shown = list(first.events(run_id))
    first.close()
    before = _everything(store)
    engine = LocalEngine(settings, store)
    with read_only(store):
        with pytest.raises(StoreError, match=r"cannot be written; make it and its folder writable\.$"):
            engine.submit(ask())
        again = list(engine.events(run_id))
        assert again[-1].data["tokens"] == shown[-1].data["tokens"]
    engine.close()
    assert _everything(store) == before


def test_a_store_that_becomes_read_only_in_the_middle_fails_the_run(
    engine: LocalEngine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.append_steps

    def refused(*args: Any) -> None:
        with read_only(store):
            append(*args)

    monkeypatch.setattr(store, "append_steps", refused)
    run_id = engine.submit(ask())
    last = list(engine.events(run_id))[-1]
    assert last.kind == "failed" and "cannot be written" in last.data["error"]
    assert store.get_run(run_id).status == "failed" and store.get_run(run_id).error == last.data["error"]
