"""Races on tiny targets: steps are taken in turns, every lane is what it would be alone, and its clock is its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.engine.protocol import Event, Race, RaceRequest
from backend.engine.race import take_turns
from backend.engine.service import LocalEngine
from backend.errors import HeadwayError
from backend.settings import Settings
from backend.targets.opening import open_target
from storage import Store, StoreError
from tests.drafters.test_registry import write_heads
from tests.engine.asking import ask, follow
from tests.support.store_faults import read_only

PLAIN = {"drafter": "none"}
MODEL = {"drafter": "draft:tiny-llama"}  # keeps a cache of its own for every lane


def race_of(*lanes: dict[str, Any], text: str = "hello hello hello", **common: Any) -> RaceRequest:
    return RaceRequest(lanes=tuple(ask(text, **(common | lane)) for lane in lanes))


def followed(engine: LocalEngine, race: Race) -> list[list[Event]]:
    return [follow(engine, run) for run in race.runs]


def steps_of(events: list[Event]) -> list[dict[str, Any]]:
    return [event.data for event in events if event.kind == "step"]


def test_every_lane_decodes_what_it_would_alone_and_is_stored_as_a_lane(engine: LocalEngine, store: Store) -> None:
    lanes = (PLAIN, {}, MODEL | {"tree": "chain-3"}, MODEL | {"tree": "2x2"})
    race = engine.race(race_of(*lanes))
    events = followed(engine, race)
    texts = set()
    for letter, lane, run, seen in zip("ABCD", lanes, race.runs, events, strict=True):
        alone = follow(engine, engine.submit(ask(**lane)))
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1)) and seen[-1].kind == "result"
        kept = ("num_drafted", "num_accepted", "tokens", "tree", "text")
        assert [[step[key] for key in kept] for step in steps_of(seen)] == [
            [step[key] for key in kept] for step in steps_of(alone)
        ], letter
        record = store.get_run(run)
        assert record.settings["race"] == {"race": race.id, "lane": letter} and record.status == "finished"
        assert not record.contended and store.num_stored_steps(run) == len(steps_of(seen)) + 1  # and the prefill
        texts.add(record.tokens)
    assert len(texts) == 1  # greedy lanes of one version
    assert [one.run.id for one in store.get_race(race.id).lanes] == list(race.runs)
    assert sum(step["num_accepted"] for step in steps_of(events[2])) > 0


@dataclass
class Lane:
    """Stands in for a lane on its way: each step takes as long as it says, or fails."""

    name: str
    times: list[float | Exception]
    trail: list[str]
    clock_ms: float = 0.0
    read: bool = False
    run: Any = field(default_factory=SimpleNamespace)

    def step(self) -> bool:
        self.trail.append(self.name)
        if not self.read:
            self.read = True
            return True
        if not self.times:
            return False
        now = self.times.pop(0)
        if isinstance(now, Exception):
            raise now
        self.clock_ms += now
        return True


def test_the_next_turn_is_that_of_the_lane_whose_clock_shows_least() -> None:
    trail: list[str] = []
    ended: list[tuple[str, float, Exception | None]] = []
    lanes = [Lane("a", [10.0] * 4, trail), Lane("b", [25.0, 25.0], trail), Lane("c", [1.0, ValueError("x")], trail)]
    take_turns(lanes, lambda lane, error: ended.append((lane.name, lane.clock_ms, error)))  # type: ignore[arg-type]
    #: prompts first; at 25 : 20 lane a goes on, at 40 : 25 lane b
    assert "".join(trail) == "abc" + "abccaabaab"
    assert [(name, clock) for name, clock, _ in ended] == [("c", 1.0), ("a", 40.0), ("b", 50.0)]
    assert [type(error) for *_, error in ended] == [ValueError, type(None), type(None)]


def test_two_versions_are_in_memory_at_once_and_one_afterwards(engine: LocalEngine, store: Store) -> None:
    race = engine.race(race_of({}, {"target": "tiny-llama:1"}))
    first, second = followed(engine, race)
    versions = [
        one[-1].kind == "result" and store.get_run(run).version_id
        for one, run in zip((first, second), race.runs, strict=True)
    ]
    assert len(set(versions)) == 2 and first[-1].data["tokens"] != second[-1].data["tokens"]
    assert engine.status().loaded_target == "tiny-llama"
    again = engine.race(race_of({"target": "tiny-llama:1"}, {}))  # what is loaded stays, whichever lane it is of
    assert [events[-1].data["tokens"] for events in followed(engine, again)] == [
        second[-1].data["tokens"], first[-1].data["tokens"],
    ]  # fmt: skip
    assert engine.status().loaded_target == "tiny-llama"


@pytest.mark.parametrize(
    ("lanes", "common", "sentence"),
    [
        ((PLAIN,), {}, "A race has 2 to 4 lanes, but this one has 1; add 1."),
        ((PLAIN, *({"tree": f"chain-{n}"} for n in range(1, 5))), {}, "but this one has 5; remove 1."),
        ((PLAIN, {}), {"text": " "}, "The prompt is empty; write at least one character."),
        (({}, PLAIN, {}), {}, "Lanes A and C would do the same; change one of them or remove it."),
        ((PLAIN, {"drafter": "none ", "tree": "chain-2"}), {}, "Lanes A and B would do the same"),
        (({"rule": "greedy"}, {"rule": "typical", "seed": 4}), {}, "Lanes A and B would do the same"),
        ((PLAIN, {"tree": "bush"}), {}, "^Lane B: Unknown tree"),
        ((PLAIN, {"temperature": 1.0}), {}, "^Lane B: .*greedy rule"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_refused_at_the_door(
    engine: LocalEngine, store: Store, lanes: tuple[dict[str, Any], ...], common: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        engine.race(race_of(*lanes, **common))
    assert store.count_runs() == 0 and store.list_races() == []


def test_lanes_that_answer_different_prompts_are_refused(engine: LocalEngine) -> None:
    with pytest.raises(HeadwayError, match="answer the same prompt"):
        engine.race(RaceRequest(lanes=(ask("one"), ask("two", drafter="none"))))


def test_lanes_that_differ_in_the_rule_above_temperature_zero_may_race(engine: LocalEngine) -> None:
    warm = {"temperature": 1.0, "max_new_tokens": 6}
    race = engine.race(race_of({"rule": "rejection"}, {"rule": "typical"}, {"rule": "typical", "epsilon": 0.2}, **warm))
    assert [events[-1].kind for events in followed(engine, race)] == ["result"] * 3


def test_a_drafter_of_another_version_ends_the_race_with_one_sentence(
    engine: LocalEngine, settings: Settings, store: Store, tmp_path: Path
) -> None:
    foreign = write_heads(open_target("tiny-llama:1", settings), tmp_path / "heads")
    race = engine.race(race_of(PLAIN, {"drafter": str(foreign)}))
    said = {events[-1].data["error"] for events in followed(engine, race)}
    assert len(said) == 1 and (sentence := said.pop()).startswith("Lane B: ") and "was trained for" in sentence
    assert [store.get_run(run).status for run in race.runs] == ["failed"] * 2
    assert not any(steps_of(events) for events in followed(engine, race))
    forced = engine.race(race_of(PLAIN, {"drafter": str(foreign), "force": True}))
    first, second = (events[-1].data["tokens"] for events in followed(engine, forced))
    assert first == second


def test_a_version_that_does_not_fit_beside_the_other_ends_the_race_with_one_sentence(
    local_engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(name: str, *rest: Any) -> Any:
        if name == "tiny-llama:1":
            raise HeadwayError("The target tiny-llama:1 needs 5.00 GB, but only 1.00 GB are free on cpu: choose less.")
        return opened(name, *rest)

    opened = open_target
    monkeypatch.setattr("backend.engine.workbench.open_target", full)
    race = local_engine.race(race_of(PLAIN, {"target": "tiny-llama:1"}))
    for events in followed(local_engine, race):
        assert events[-1].data["error"].startswith("Lane B: The target tiny-llama:1 needs 5.00 GB")
    assert follow(local_engine, local_engine.submit(ask()))[-1].kind == "result"


def test_a_prompt_that_is_too_long_for_a_lane_ends_the_race(engine: LocalEngine) -> None:
    race = engine.race(race_of(PLAIN, {}, text="hello " * 400))
    for events in followed(engine, race):
        assert events[-1].kind == "failed" and "shorten the prompt" in events[-1].data["error"]


def test_stopping_a_race_stops_all_its_lanes_and_stopping_a_lane_that_one(engine: LocalEngine, store: Store) -> None:
    long = engine.race(race_of(PLAIN, {}, max_new_tokens=400))
    waiting = engine.race(race_of(PLAIN, {}))
    lonely = engine.race(race_of(PLAIN, {}))
    engine.cancel(waiting.id)
    engine.cancel(lonely.runs[0])
    for event in engine.events(long.runs[1]):
        if event.kind == "step":
            engine.cancel(long.id)
    for events in followed(engine, long):
        assert events[-1].kind == "result" and events[-1].data["finish_reason"] == "cancelled"
    assert [[event.kind for event in events][-1] for events in followed(engine, waiting)] == ["cancelled"] * 2
    first, second = followed(engine, lonely)
    assert not steps_of(first) and first[-1].kind == "cancelled" and second[-1].data["finish_reason"] == "length"
    statuses = [store.get_run(run).status for race in (long, waiting, lonely) for run in race.runs]
    assert statuses == ["cancelled"] * 5 + ["finished"]


def test_a_race_waits_for_whoever_has_the_device_or_shares(local_engine: LocalEngine, store: Store) -> None:
    with local_engine.lend(lambda: "training small-heads"):
        race = local_engine.race(race_of(PLAIN, {}))
        for run in race.runs:
            (event,) = local_engine.events(run, timeout_s=0.05)
            assert event.data == {"position": 0, "holder": "training small-heads"}
        local_engine.share(race.runs[1])
        for events in followed(local_engine, race):
            assert events[-1].data["contended"] is True


def test_a_restarted_engine_replays_every_lane(settings: Settings, store: Store) -> None:
    first = LocalEngine(settings, store)
    race = first.race(race_of(PLAIN, {}))
    before = followed(first, race)
    first.close()
    second = LocalEngine(settings, store)
    after = followed(second, race)
    second.close()
    assert [steps_of(events) for events in after] == [steps_of(events) for events in before]
    assert after[0][0].data["conditions"]["race"] == {"race": race.id, "lane": "A"}


def test_a_store_that_can_only_be_read_refuses_the_race(local_engine: LocalEngine, store: Store) -> None:
    with read_only(store), pytest.raises(StoreError):
        local_engine.race(race_of(PLAIN, {}))
    assert store.list_races() == []


def test_an_engine_without_a_store_races_all_the_same(settings: Settings) -> None:
    engine = LocalEngine(settings)
    race = engine.race(race_of(PLAIN, {}))
    assert [events[-1].kind for events in followed(engine, race)] == ["result"] * 2
    engine.close()
