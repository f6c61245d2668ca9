"""The contract of the store, for every database it supports."""

from __future__ import annotations

import math
import threading
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone

import pytest

from storage import NotFoundError, RunFilter, Store, StoreError
from tests.storage.samples import IDENTITY, NASTY, RESULT, SETTINGS, new_run, register, steps


def test_registering_a_version_twice_gives_the_same_record(store: Store) -> None:
    first = register(store)
    second = store.register_version(IDENTITY, label="other", source="x", model_type="y", num_parameters=1)
    assert second == first == store.get_version(first.id)
    assert first.identity == IDENTITY and first.num_parameters == 7_000_000_000
    assert store.list_versions() == [first]


@pytest.mark.parametrize("part", ["weights_id", "adapter_id", "quantisation", "tokenizer_id", "template_id"])
def test_each_part_of_the_identity_makes_another_version(store: Store, part: str) -> None:
    assert register(store).id != register(store, **{part: "other"}).id
    assert len(store.list_versions()) == 2


def test_a_version_remembers_what_it_was_made_from(store: Store) -> None:
    base, child = register(store), register(store, weights_id="w2")
    for parent in (base, register(store, weights_id="w3")):  # the first that is told stays
        made = store.register_version(
            child.identity, label="", source="", model_type="", num_parameters=0, parent_id=parent.id
        )
        assert made == store.get_version(child.id) and (made.parent_id, made.label) == (base.id, "base")
    with pytest.raises(ValueError, match="can't be made from itself"):
        store.register_version(base.identity, label="", source="", model_type="", num_parameters=0, parent_id=child.id)
    with pytest.raises(NotFoundError):
        store.register_version(base.identity, label="", source="", model_type="", num_parameters=0, parent_id="nope")
    assert store.get_version(base.id).parent_id is None


def test_a_label_stands_on_one_version_at_a_time(store: Store) -> None:
    first, second = register(store), register(store, weights_id="w2")

    def tags() -> list[tuple[str, ...]]:
        return [store.get_version(one.id).tags for one in (first, second)]

    for tag in ("serving", NASTY, "serving"):
        store.label_version(first.id, tag)
    assert set(tags()[0]) == {"serving", NASTY} and len(tags()[0]) == 2
    store.label_version(second.id, "serving")
    assert tags() == [(NASTY,), ("serving",)]
    store.label_version(first.id, "serving", on=False)  # it stands on the other: nothing to take away
    assert tags() == [(NASTY,), ("serving",)]
    store.label_version(second.id, "serving", on=False)
    assert tags() == [(NASTY,), ()]


def test_what_is_given_of_a_version_is_replaced(store: Store) -> None:
    version, other = register(store), register(store, weights_id="w2")
    store.annotate_version(version.id, label=NASTY, notes=NASTY)
    store.annotate_version(version.id, source="/elsewhere")
    found = store.get_version(version.id)
    assert (found.label, found.notes, found.source) == (NASTY, NASTY, "/elsewhere")
    store.annotate_version(version.id, notes="")
    assert store.get_version(version.id).notes == "" and store.get_version(other.id) == other


def test_drafters_are_one_per_weights_and_version(store: Store) -> None:
    version, other = register(store), register(store, weights_id="w2")

    def add(weights_hash: str, version_id: str, name: str = "heads") -> str:
        return store.register_drafter(
            family="medusa",
            name=name,
            path="./heads",
            weights_hash=weights_hash,
            version_id=version_id,
            config={"num_heads": 4},
            lineage={"trained_on": "self-distilled"},
        ).id

    first = add("h1", version.id)
    assert add("h1", version.id, "renamed") == first
    assert len({first, add("h2", version.id), add("h1", other.id)}) == 3
    record = store.get_drafter(first)
    assert (record.name, record.config, record.version_id) == ("heads", {"num_heads": 4}, version.id)
    assert len(store.list_drafters()) == 3
    assert {drafter.version_id for drafter in store.list_drafters(other.id)} == {other.id}


def test_unknown_ids_are_named(store: Store) -> None:
    calls = [
        lambda: store.get_run("nope"),
        lambda: store.get_version("nope"),
        lambda: store.annotate_version("nope", notes="x"),
        lambda: store.label_version("nope", "serving"),
        lambda: store.get_drafter("nope"),
        lambda: store.steps("nope"),
        lambda: store.start_run("nope"),
        lambda: store.append_steps("nope", 0, steps(0, 1)),
        lambda: store.finish_run("nope", RESULT),
        lambda: store.delete_run("nope"),
        lambda: store.annotate_run("nope", notes="x"),
        lambda: store.create_run(prompt="", drafter_name="", settings={}, version_id="nope"),
        lambda: store.create_run(prompt="", drafter_name="", settings={}, drafter_id="nope"),
        lambda: store.register_drafter(family="", name="", path="", weights_hash="", version_id="nope"),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match="nope"):
            call()
    assert store.count_runs() == 0


def test_a_run_from_start_to_end(store: Store) -> None:
    version = register(store)
    run_id = store.create_run(
        prompt="Hi",
        messages=[{"role": "user", "content": "Hi"}],
        drafter_name="medusa",
        settings=SETTINGS,
        version_id=version.id,
        tags=("a", "b"),
        notes="first",
    )
    queued = store.get_run(run_id)
    assert queued.status == "queued" and queued.num_tokens is None and queued.acceptance_length is None
    store.start_run(run_id)
    assert store.get_run(run_id).status == "running"
    store.append_steps(run_id, 0, steps(0, 4))
    store.finish_run(run_id, RESULT)
    run = store.get_run(run_id)
    assert run.status == "finished"
    assert run.started_at and run.finished_at and run.created_at <= run.started_at <= run.finished_at
    for name, value in vars(RESULT).items():
        assert getattr(run, name) == value, name
    assert run.acceptance_length == 1 + 5 / 4
    assert (run.settings, run.tags, run.notes, run.version_label) == (SETTINGS, ("a", "b"), "first", "base")
    assert run.messages == [{"role": "user", "content": "Hi"}]
    with pytest.raises(FrozenInstanceError):
        run.status = "queued"  # type: ignore[misc]


def test_a_run_ends_once(store: Store) -> None:
    run_id = new_run(store)
    with pytest.raises(StoreError, match="queued"):
        store.finish_run(run_id, RESULT)
    store.start_run(run_id)
    with pytest.raises(StoreError, match="running"):
        store.start_run(run_id)
    store.fail_run(run_id, "Out of memory; lower the batch.")
    before = store.get_run(run_id)
    assert (before.status, before.error, before.text) == ("failed", "Out of memory; lower the batch.", None)
    for late in (lambda: store.finish_run(run_id, RESULT), lambda: store.cancel_run(run_id)):
        with pytest.raises(StoreError, match="failed"):
            late()
    assert store.get_run(run_id) == before


def test_a_queued_run_can_be_cancelled_and_a_running_one_keeps_its_text(store: Store) -> None:
    queued, running = new_run(store), new_run(store, start=True)
    store.cancel_run(queued)
    store.cancel_run(running, RESULT)
    assert store.get_run(queued).status == store.get_run(running).status == "cancelled"
    assert store.get_run(running).text == "a b c"


def test_steps_come_back_in_any_window(store: Store) -> None:
    run_id = new_run(store, start=True)
    for first, count in ((0, 64), (64, 1), (65, 30), (95, 64)):
        store.append_steps(run_id, first, steps(first, count))
    everything = steps(0, 159)
    assert store.num_stored_steps(run_id) == 159
    assert store.steps(run_id) == everything
    for start, stop in ((0, 1), (63, 66), (64, 65), (94, 96), (100, 159), (150, 500), (159, None), (7, 7), (9, 3)):
        assert store.steps(run_id, start, stop) == everything[start:stop], (start, stop)


def test_chunks_must_continue_each_other(store: Store) -> None:
    run_id = new_run(store)
    with pytest.raises(StoreError, match="queued"):
        store.append_steps(run_id, 0, steps(0, 1))
    store.start_run(run_id)
    store.append_steps(run_id, 0, steps(0, 3))
    for first in (0, 2, 4):
        with pytest.raises(StoreError, match="append from step 3"):
            store.append_steps(run_id, first, steps(first, 2))
    for count in (0, 65):
        with pytest.raises(ValueError, match=str(count)):
            store.append_steps(run_id, 3, steps(3, count))
    with pytest.raises(TypeError):
        store.append_steps(run_id, 3, [{"step": object()}])
    assert store.steps(run_id) == steps(0, 3)
    store.finish_run(run_id, RESULT)
    with pytest.raises(StoreError, match="finished"):
        store.append_steps(run_id, 3, steps(3, 1))


def test_text_survives_unchanged(store: Store) -> None:
    version = store.register_version(IDENTITY, label=NASTY, source=NASTY, model_type="x", num_parameters=1, notes=NASTY)
    messages = [{"role": "user", "content": NASTY}]
    run_id = store.create_run(
        prompt=NASTY, messages=messages, drafter_name=NASTY, settings={NASTY: NASTY}, tags=[NASTY], notes=NASTY
    )
    store.start_run(run_id)
    store.append_steps(run_id, 0, [{"text": NASTY}])
    store.fail_run(run_id, NASTY)
    run = store.get_run(run_id)
    assert (run.prompt, run.messages, run.settings, run.tags) == (NASTY, messages, {NASTY: NASTY}, (NASTY,))
    assert run.notes == run.error == run.drafter_name == run.prompt_start == NASTY
    assert store.get_version(version.id).label == NASTY
    assert store.steps(run_id) == [{"text": NASTY}]
    for where in (RunFilter(search=NASTY), RunFilter(drafter=NASTY), RunFilter(search="\ud83d")):
        assert [found.id for found in store.list_runs(where)] == [run_id]
    with pytest.raises(NotFoundError):
        store.get_run(NASTY)


def test_numbers_survive_unchanged(store: Store) -> None:
    run_id = new_run(store, start=True)
    numbers = [0.1, -math.inf, math.inf, 5e-324, 2**63, True, None]
    store.append_steps(run_id, 0, [{"numbers": numbers, "nan": math.nan}])
    (step,) = store.steps(run_id)
    assert step["numbers"] == numbers and math.isnan(step["nan"])


def test_moments_are_utc(url: str) -> None:
    moment = datetime(2026, 3, 4, 1, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with Store.open(url, clock=lambda: moment) as store:
        run = store.get_run(new_run(store))
    assert run.created_at == moment and run.created_at.tzinfo is UTC
    naive = Store.open(url, clock=lambda: moment.replace(tzinfo=None))
    with naive as store, pytest.raises(Exception, match="time zone"):
        new_run(store)


def test_lists_are_filtered_ordered_and_paged(store: Store) -> None:
    version = register(store)
    ids = [new_run(store, f"prompt {i}", drafter_name="ab"[i % 2]) for i in range(6)]
    of_version = store.create_run(prompt="100% Sure", drafter_name="c", settings={}, version_id=version.id)
    store.start_run(ids[1])
    store.cancel_run(ids[2], RESULT)
    everything = [*ids, of_version]

    def listed(where: RunFilter) -> list[str]:
        found = [run.id for run in store.list_runs(where, order="oldest")]
        assert store.count_runs(where) == len(found)
        return found

    assert listed(RunFilter()) == everything
    assert [run.id for run in store.list_runs()] == everything[::-1]
    assert [run.id for run in store.list_runs(limit=2, offset=1)] == everything[-2:-4:-1]
    assert listed(RunFilter(status="queued")) == [ids[0], ids[3], ids[4], ids[5], of_version]
    assert listed(RunFilter(drafter="a", status="queued")) == [ids[0], ids[4]]
    assert listed(RunFilter(version_id=version.id)) == [of_version]
    assert listed(RunFilter(search="100% sURE")) == [of_version]
    assert listed(RunFilter(search="%")) == [of_version]
    assert listed(RunFilter(search="a b c")) == [ids[2]]
    assert listed(RunFilter(search=ids[4])) == [ids[4]]
    assert listed(RunFilter(search="nothing of this")) == []
    for order in ("most_tokens", "longest", "best_acceptance"):
        found = [run.id for run in store.list_runs(order=order)]
        assert found == [ids[2], *(run_id for run_id in reversed(everything) if run_id != ids[2])], order


def test_tags_are_searched_as_written(store: Store) -> None:
    run_id = store.create_run(prompt="", drafter_name="", settings={}, tags=['say "é"', "back\\slash"])
    for wanted in ('say "é"', "BACK\\S", "é"):
        assert [run.id for run in store.list_runs(RunFilter(search=wanted))] == [run_id], wanted
    assert store.list_runs(RunFilter(search="\\\\")) == []


def test_summaries_hold_the_start_of_the_prompt(store: Store) -> None:
    new_run(store, "é" * 500)
    (summary,) = store.list_runs()
    assert summary.prompt_start == "é" * 200


def test_tags_and_notes_can_be_replaced_apart(store: Store) -> None:
    run_id = store.create_run(prompt="", drafter_name="", settings={}, tags=["old"], notes="old")
    store.annotate_run(run_id, tags=["new", "x"])
    assert (store.get_run(run_id).tags, store.get_run(run_id).notes) == (("new", "x"), "old")
    store.annotate_run(run_id, tags=[], notes="")
    assert (store.get_run(run_id).tags, store.get_run(run_id).notes) == ((), "")


def test_deleting_a_run_deletes_its_steps_alone(store: Store) -> None:
    gone, kept = new_run(store, start=True), new_run(store, start=True)
    for run_id in (gone, kept):
        store.append_steps(run_id, 0, steps(0, 5))
    with pytest.raises(StoreError, match="cancel it"):
        store.delete_run(gone)
    store.finish_run(gone, RESULT)
    store.delete_run(gone)
    assert [run.id for run in store.list_runs()] == [kept]
    assert store.usage().num_traced_runs == 1 and store.steps(kept) == steps(0, 5)


def test_runs_of_dead_owners_are_interrupted(store: Store) -> None:
    alive = store.create_run(prompt="", drafter_name="", settings={}, owner="alive")
    dead = [store.create_run(prompt="", drafter_name="", settings={}, owner="dead") for _ in range(3)]
    taken_over = store.create_run(prompt="", drafter_name="", settings={}, owner="dead")
    store.start_run(dead[1])
    store.append_steps(dead[1], 0, steps(0, 2))
    store.start_run(taken_over, owner="alive")
    store.start_run(dead[2])
    store.finish_run(dead[2], RESULT)
    assert store.mark_interrupted(lambda owner: owner == "alive") == dead[:2]
    assert [store.get_run(run_id).status for run_id in dead] == ["interrupted", "interrupted", "finished"]
    assert store.get_run(alive).status == "queued" and store.get_run(taken_over).status == "running"
    assert store.steps(dead[1]) == steps(0, 2)
    assert store.mark_interrupted(lambda owner: owner == "alive") == []


def _traced(store: Store, *, finish: bool = True) -> str:
    run_id = new_run(store, start=True)
    store.append_steps(run_id, 0, steps(0, 64))
    store.append_steps(run_id, 64, steps(64, 10))
    if finish:
        store.finish_run(run_id, RESULT)
    return run_id


def test_pruning_drops_the_oldest_traces_and_keeps_the_rows(store: Store) -> None:
    still_open = _traced(store, finish=False)
    ids = [_traced(store) for _ in range(4)]
    assert store.prune_traces() == [] and store.prune_traces(keep_runs=5) == []
    assert store.prune_traces(keep_runs=3) == ids[:2]
    assert store.steps(ids[0]) == [] and store.get_run(ids[0]).traces_pruned
    assert store.get_run(ids[0]).text == "a b c"
    assert len(store.steps(ids[2])) == 74 and not store.get_run(ids[2]).traces_pruned
    usage = store.usage()
    assert (usage.num_runs, usage.num_traced_runs) == (5, 3) and usage.trace_bytes > 0
    assert store.prune_traces(max_bytes=usage.trace_bytes - 1) == [ids[2]]
    assert store.prune_traces(max_bytes=0) == [ids[3]]
    assert len(store.steps(still_open)) == 74
    with pytest.raises(ValueError, match="-1"):
        store.prune_traces(keep_runs=-1)


def test_many_threads_share_one_store(store: Store) -> None:
    version_ids: set[str] = set()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            version_ids.add(register(store).id)
            run_id = new_run(store, f"thread {number}", start=True)
            for first in range(0, 40, 8):
                store.append_steps(run_id, first, steps(first, 8))
                assert store.num_stored_steps(run_id) == first + 8
            store.finish_run(run_id, RESULT)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(version_ids) == 1
    assert {run.prompt_start for run in store.list_runs()} == {f"thread {number}" for number in range(8)}
    assert all(store.steps(run.id) == steps(0, 40) for run in store.list_runs(RunFilter(status="finished")))
    assert store.count_runs(RunFilter(status="finished")) == 8


def test_of_two_threads_that_end_a_run_one_wins(store: Store) -> None:
    run_id = new_run(store, start=True)
    barrier = threading.Barrier(4)
    outcomes: list[str] = []

    def end() -> None:
        barrier.wait()
        try:
            store.finish_run(run_id, RESULT)
            outcomes.append("won")
        except StoreError:
            outcomes.append("refused")

    threads = [threading.Thread(target=end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 3 + ["won"]


def test_several_runs_come_in_the_order_asked_for_and_an_unknown_one_is_named(store: Store) -> None:
    ids = [new_run(store, prompt) for prompt in ("a", "b", "c")]
    asked = [ids[2], ids[0], ids[2]]
    assert store.get_runs(asked) == [store.get_run(run_id) for run_id in asked]
    assert store.get_runs([]) == []
    with pytest.raises(NotFoundError, match="There is no run nope in this store"):
        store.get_runs([ids[0], "nope"])
