"""The table of runs, for every database: regular expressions, tags, sorting by figures, groups, the waste basket."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import storage.runs
from storage import RunFilter, RunSort, Store, StoreError
from storage.patterns import check, for_postgres
from tests.storage.samples import NASTY, RESULT, new_run, steps


def _run(store: Store, prompt: str = "p", *, result: Any = RESULT, **more: Any) -> str:
    more = {"drafter_name": "none", "settings": {}} | more
    run_id = store.create_run(prompt=prompt, **more)
    store.start_run(run_id)
    if result is not None:
        store.finish_run(run_id, result)
    return run_id


def _found(store: Store, **where: Any) -> list[str]:
    found = [run.id for run in store.list_runs(RunFilter(**where), order="oldest")]
    assert store.count_runs(RunFilter(**where)) == len(found)
    runs, total = store.find_runs(RunFilter(**where), order="oldest", limit=2, offset=1)
    assert ([run.id for run in runs], total) == (found[1:3], len(found))
    return found


def test_regular_expressions_search_what_a_search_searches(store: Store) -> None:
    prompt = _run(store, "Write 12 lines\nof code\n", result=None)
    text = _run(store, result=replace(RESULT, text="def f(x): return 2*x"))
    notes = _run(store, notes="lr=3e-4", result=None)
    tag = _run(store, tags=["sweep-7"], result=None)
    drafter = _run(store, drafter_name="medusa (4)", result=None)
    assert _found(store, regex=r"[0-9]+ lines$") == [prompt]
    assert _found(store, regex=r"^of c.de") == [prompt]
    assert _found(store, regex=r"lines.of") == [] and _found(store, regex=r"(?s)lines.of") == [prompt]
    assert _found(store, regex=r"WRITE") == [] and _found(store, regex=r"(?i)WRITE") == [prompt]
    assert _found(store, regex=r"f\(x\):.*\*x") == [text]
    assert _found(store, regex=r"lr=[0-9]e-\d") == [notes]
    assert _found(store, regex=r"sweep-(6|7)") == [tag]
    assert _found(store, regex=r"medusa \(\d\)$") == [drafter]
    assert _found(store, regex=r"e", status="finished") == [text]
    assert _found(store, regex="", search="") == [prompt, text, notes, tag, drafter]


def test_regular_expressions_find_any_characters(store: Store) -> None:
    nasty = _run(store, NASTY, result=None)
    _run(store, "plain", result=None)
    for pattern in ("🦙👩", "é'\\)", "\u202e", "\ud83d", "\x10", "\x00"):
        assert _found(store, regex=pattern) == [nasty], ascii(pattern)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(", "no regular expression"),
        ("[a", "no regular expression"),
        ("*", "no regular expression"),
        ("a{3,1}", "no r"),
    ],
)
def test_a_pattern_that_is_none_is_one_sentence(store: Store, pattern: str, sentence: str) -> None:
    _run(store)
    for ask in (store.list_runs, store.count_runs, lambda where: store.group_runs(where, by="status")):
        with pytest.raises(StoreError, match=sentence) as caught:
            ask(RunFilter(regex=pattern))  # type: ignore[operator]
        assert "\n" not in str(caught.value)
    assert store.count_runs() == 1


def test_a_pattern_that_only_python_knows_is_one_sentence_elsewhere(store: Store) -> None:
    run_id = _run(store, "ab")
    if store.location.startswith("postgresql"):
        with pytest.raises(StoreError, match=r"cannot search for this pattern .*; simplify it\.$"):
            store.list_runs(RunFilter(regex="(?P<name>a)"))
    else:
        assert _found(store, regex="(?P<name>a)") == [run_id]


def test_patterns_that_could_take_for_ever_are_refused() -> None:
    for pattern in (r"(a+)+$", r"(a*)*b", r"((a+)b)*", r"(?:x+y?){2,}", r"(\w+\s?)*$"):
        with pytest.raises(StoreError, match="can take for ever"):
            check(pattern)
    for pattern in (
        r"a+b*",
        r"(ab)+",
        r"(a+)(b+)",
        r"(a+)?",
        r"[+*]+(x)*",
        r"(\+\*)+",
        r"[]+]*",
        r"(a[)+]b)*",
        r"a{2}",
    ):
        check(pattern)


def test_options_of_patterns_are_spelled_for_postgres() -> None:
    spelled = {pattern: for_postgres(pattern) for pattern in ("a", "(?i)a", "(?s)a", "(?is)a", "(?:i)a")}
    assert spelled == {"a": "(?n)a", "(?i)a": "(?ni)a", "(?s)a": "(?w)a", "(?is)a": "(?wi)a", "(?:i)a": "(?n)(?:i)a"}


def test_a_run_has_all_wanted_tags(store: Store) -> None:
    ab = _run(store, tags=["a", "b", NASTY])
    a = _run(store, tags=["a"])
    _run(store, tags=["ab", 'x"a"', "A"])
    assert _found(store, tags=("a",)) == [ab, a] and _found(store, tags=("b", "a")) == [ab]
    assert _found(store, tags=(NASTY,)) == [ab] and _found(store, tags=("a", "c")) == []
    assert len(_found(store, tags=('x"a"',))) == 1 and len(_found(store)) == 3


def test_contended_runs_can_be_left_out(store: Store) -> None:
    alone, shared = _run(store), _run(store, result=replace(RESULT, contended=True))
    assert (_found(store, contended=False), _found(store, contended=True)) == ([alone], [shared])


def test_runs_are_sorted_by_any_figure(store: Store) -> None:
    running = _run(store, result=None)
    slow = _run(store, result=replace(RESULT, verify_ms=100.0, num_accepted=8, prompt_tokens=1, num_cut=0))
    fast = _run(store, result=replace(RESULT, verify_ms=1.0, num_accepted=0, prompt_tokens=2, num_cut=0))
    no_steps = _run(store, result=replace(RESULT, num_steps=0, num_accepted=0, verify_ms=0, draft_ms=0, commit_ms=0,
                                          overhead_ms=0, prompt_tokens=3))  # fmt: skip

    def by(name: str, descending: bool = True) -> list[str]:
        return [run.id for run in store.list_runs(order=RunSort(by=name, descending=descending))]

    assert by("tokens_per_s") == [fast, slow, no_steps, running]
    assert by("tokens_per_s", False) == [slow, fast, no_steps, running]
    assert by("acceptance_length") == [slow, fast, no_steps, running]
    assert by("prompt_tokens") == [no_steps, fast, slow, running]
    assert by("num_cut", False) == [fast, slow, no_steps, running]
    assert by("created_at", False) == [running, slow, fast, no_steps]
    assert by("status")[0] == running
    for name in ("prefill_ms", "overhead_ms", "wall_ms", "num_drafted", "finished_at", "drafter_name", "version_label"):
        assert len(by(name)) == 4
    with pytest.raises(ValueError, match="sorted by one of"):
        by("secrets")


def test_sorting_agrees_with_the_ratios_of_the_records(store: Store) -> None:
    for number in range(12):
        _run(
            store, result=replace(RESULT, num_steps=4 + number % 5, num_accepted=number % 7, verify_ms=1.0 + number % 4)
        )
    for name in ("tokens_per_s", "acceptance_length"):
        values = [getattr(run, name) for run in store.list_runs(order=RunSort(by=name))]
        assert values == sorted(values, reverse=True) and len(set(values)) > 3
    (group,) = store.group_runs(by="status")
    runs = store.list_runs()
    assert group.means["tokens_per_s"] == pytest.approx(sum(run.tokens_per_s or 0 for run in runs) / 12)
    assert group.means["acceptance_length"] == pytest.approx(sum(run.acceptance_length or 0 for run in runs) / 12)


def test_groups_have_counts_and_means(store: Store) -> None:
    def settings(temperature: float) -> dict[str, Any]:
        return {"request": {"temperature": temperature}, "seed": store.count_runs()}

    for accepted, steps_taken, temperature in ((8, 4, 0.0), (0, 12, 0.0), (5, 5, 0.7)):
        result = replace(RESULT, num_accepted=accepted, num_steps=steps_taken)
        _run(
            store,
            result=result,
            settings=settings(temperature),
            drafter_name="heads",
            tags=["x", "y"][: steps_taken % 3],
        )
    _run(store, result=None, drafter_name="ngram", settings={"request": None})
    heads, ngram = store.group_runs(by="drafter_name")
    assert (heads.key, heads.num_runs, heads.num_measured) == ("heads", 3, 3)
    assert heads.totals["num_steps"] == 21 and heads.acceptance_length == 1 + 13 / 21
    assert heads.means["acceptance_length"] == pytest.approx((3 + 1 + 2) / 3)
    decode_ms = 2.0 + 3.25 + 0.5 + 0.125
    assert heads.tokens_per_s == pytest.approx(1000 * 8 / decode_ms)
    assert (ngram.key, ngram.num_runs, ngram.num_measured, ngram.means) == ("ngram", 1, 0, {})
    assert (ngram.acceptance_length, ngram.tokens_per_s, ngram.totals["num_steps"]) == (None, None, 0)
    by_temperature = store.group_runs(by="settings.request.temperature")
    assert [(group.key, group.num_runs) for group in by_temperature] == [("0.0", 2), ("0.7", 1), (None, 1)]
    assert by_temperature[0].acceptance_length == 1 + 8 / 16
    assert {group.key: group.num_runs for group in store.group_runs(by="tag")} == {"x": 2, "y": 1, None: 2}
    only = store.group_runs(RunFilter(drafter="heads"), by="status")
    assert [(group.key, group.num_runs) for group in only] == [("finished", 3)]
    assert {group.key for group in store.group_runs(by="contended")} == {"false"}
    for nonsense in ("secrets", "settings", "settings.", ""):
        with pytest.raises(ValueError, match="runs are grouped by"):
            store.group_runs(by=nonsense)
    assert store.group_runs(RunFilter(search="nothing like it"), by="status") == []


def test_groups_by_settings_of_any_kind(store: Store) -> None:
    values: list[Any] = [1, 1.0, True, None, "1", NASTY, math.nan, [1, NASTY], {"a": 2}, 2**70, 1e300]
    for value in values:
        _run(store, settings={"a b": {"'": value, "text": NASTY if value is True else "", "nan": math.nan}})
        _run(store, settings={"a b": {"'": value}})
    _run(store, settings={"a b": [1]})
    groups = {group.key: group.num_runs for group in store.group_runs(by="settings.a b.'")}
    assert {key: number for key, number in groups.items() if key is not None and len(key) < 40} == {
        "1": 4, "1.0": 2, "true": 2, "NaN": 2, '{"a": 2}': 2, str(2**70): 2, "1e+300": 2,
    }  # fmt: skip
    assert groups[NASTY] == 2 and groups[None] == 3 and sum(groups.values()) == 23
    assert store.group_runs(by='settings."')[0].num_runs == 23


def test_the_waste_basket_hides_and_gives_back(store: Store) -> None:
    kept, thrown, more = _run(store), _run(store), _run(store)
    store.annotate_run(thrown, tags=["t"], notes="n")
    before = store.get_run(thrown)
    assert store.trash_runs([thrown, more]) == sorted([thrown, more])
    assert _found(store) == [kept] and _found(store, trashed=True) == [thrown, more]
    assert _found(store, trashed=None) == [kept, thrown, more] and _found(store, search=thrown) == []
    assert [group.num_runs for group in store.group_runs(by="status")] == [1]
    assert (store.usage().num_runs, store.usage().num_trashed_runs) == (3, 2)
    assert store.get_run(thrown).trashed_at is not None
    assert store.trash_runs([kept, thrown]) == [kept]
    assert store.restore_runs([kept, thrown]) == sorted([kept, thrown]) and store.restore_runs([kept]) == []
    assert store.get_run(thrown) == before and _found(store) == [kept, thrown]


def test_open_runs_are_not_thrown_away(store: Store) -> None:
    ended, running = _run(store), _run(store, result=None)
    with pytest.raises(StoreError, match=f"Run {running} is running; cancel it before deleting it"):
        store.trash_runs([ended, running])
    assert _found(store) == [ended, running]
    assert store.trash_runs([]) == [] and store.restore_runs([]) == []


def test_the_waste_basket_is_emptied_by_age(url: str) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    with Store.open(url, clock=lambda: now[0]) as store:
        ids = [new_run(store, start=True) for _ in range(4)]
        for run_id in ids:
            store.append_steps(run_id, 0, steps(0, 2))
            store.cancel_run(run_id)
        store.trash_runs(ids[:1])
        now[0] += timedelta(days=10)
        store.trash_runs(ids[1:3])
        assert store.purge_trash(now[0] - timedelta(days=1)) == ids[:1]
        assert _found(store, trashed=None) == ids[1:]
        assert store.purge_trash() == ids[1:3] and store.purge_trash() == []
        assert _found(store, trashed=None) == ids[3:] and store.steps(ids[3]) == steps(0, 2)
        assert store.usage().num_traced_runs == 1


def test_more_runs_than_fit_into_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.runs, "_AT_ONCE", 10)
    ids = [new_run(store) for _ in range(25)]
    for run_id in ids:
        store.cancel_run(run_id)
    assert store.trash_runs(ids) == ids and store.count_runs() == 0
    assert store.restore_runs(ids) == ids and store.trash_runs(ids[:15]) == ids[:15]
    assert store.purge_trash() == ids[:15] and store.count_runs() == 10
