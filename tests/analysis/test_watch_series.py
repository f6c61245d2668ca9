"""Series of requests: baselines, versions, domains, what is no request, and going on from what was kept."""

from __future__ import annotations

import json
import random

import pytest

from backend.analysis.watch import WatchRules
from backend.analysis.watch_series import ALL, MOST_SERIES, Raised, Request, WatchedSeries, request_from


def requests(version: str, count: int, length: float, seed: int, domain: str = "code") -> list[Request]:
    rng = random.Random(seed)
    return [Request(version, "heads", domain, max(1.0, rng.gauss(length, 0.4))) for _ in range(count)]


def fed(series: WatchedSeries, history: list[Request]) -> list[Raised]:
    return [one for request in history for one in series.add(request)]


def test_old_heads_on_a_new_version_are_held_against_what_they_were() -> None:
    series = WatchedSeries(WatchRules())
    assert fed(series, requests("v1", 600, 2.0, 1)) == []
    found = fed(series, requests("v2", 300, 1.7, 2))
    assert {one.version for one in found} == {"v2"} and {one.domain for one in found} == {ALL, "code"}
    assert all(one.baseline_version == "v1" and one.alarm.at <= 200 for one in found if one.alarm.rule == "cusum")
    anew = [Request("v2", "new heads", "code", one.length) for one in requests("v2", 600, 1.7, 3)]
    assert fed(series, anew) == []  # they have a baseline of their own
    rows = {(row["drafter"], row["version"], row["domain"]): row for row in series.rows()}
    assert rows["heads", "v2", ALL]["raised"] and not rows["heads", "v1", ALL]["raised"]
    assert rows["heads", "v2", ALL]["baseline"] == pytest.approx(2.0, abs=0.15)


def test_a_drop_in_one_domain_is_found_there() -> None:
    series, rng = WatchedSeries(WatchRules()), random.Random(4)
    mixed = requests("v1", 400, 2.0, 5) + requests("v1", 400, 2.0, 6, "poems")
    rng.shuffle(mixed)
    assert fed(series, mixed) == []
    later = requests("v1", 300, 2.0, 7) + requests("v1", 60, 1.5, 8, "poems")
    rng.shuffle(later)
    assert {one.domain for one in fed(series, later)} == {"poems"}


def test_what_was_kept_goes_on_as_if_nothing_had_happened() -> None:
    history = requests("v1", 300, 2.0, 9) + requests("v2", 400, 1.75, 10)
    whole = WatchedSeries(WatchRules())
    expected = fed(whole, history)
    found: list[Raised] = []
    kept = json.dumps([])
    for start in range(0, len(history), 37):
        part = WatchedSeries(WatchRules())
        part.load(json.loads(kept))
        found += fed(part, history[start : start + 37])
        kept = json.dumps(part.to_dict())
    assert found == expected and expected and json.loads(kept) == json.loads(json.dumps(whole.to_dict()))


def test_names_from_outside_do_not_fill_the_memory() -> None:
    series = WatchedSeries(WatchRules())
    for number in range(MOST_SERIES + 5):
        series.add(Request("v", f"heads {number}", ALL, 2.0))
    assert len(series.rows()) == MOST_SERIES and series.left_out == 5


@pytest.mark.parametrize(
    ("row", "length"),
    [
        ({"version": "v", "drafter": "d", "acceptance_length": 1.5}, 1.5),
        ({"version": "v", "drafter": "d", "domain": "code", "tokens": 30, "steps": 20}, 1.5),
    ],
)
def test_a_request_is_read(row: dict[str, object], length: float) -> None:
    assert request_from(row).length == length


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([], "no JSON object"),
        ({"drafter": "d", "acceptance_length": 2}, "version must be a text"),
        ({"version": "v", "drafter": 3, "acceptance_length": 2}, "drafter must be a text"),
        ({"version": "v", "drafter": "x" * 201, "acceptance_length": 2}, "drafter must be a text"),
        ({"version": "v", "drafter": "d", "domain": None, "acceptance_length": 2}, "domain must be a text"),
        ({"version": "v", "drafter": "d"}, "is missing"),
        ({"version": "v", "drafter": "d", "tokens": 3}, "is missing"),
        ({"version": "v", "drafter": "d", "acceptance_length": True}, "must be a number"),
        ({"version": "v", "drafter": "d", "acceptance_length": float("nan")}, "must be a number"),
        ({"version": "v", "drafter": "d", "acceptance_length": 0.5}, "lies between 1 and 1000"),
        ({"version": "v", "drafter": "d", "tokens": 3, "steps": 0}, "steps must be at least 1"),
        ({"version": "v", "drafter": "d", "tokens": "3", "steps": 1}, "tokens must be a number"),
    ],
)
def test_what_is_no_request_is_told(row: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        request_from(row)
