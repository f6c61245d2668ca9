"""Load tests against real HTTP: closed and open loop, other makes of server, and one that is killed in the middle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from backend.errors import Cancelled, HeadwayError
from backend.serving.client import ServerGone
from backend.serving.load import Load, LoadPrompt, run_load
from backend.serving.load_figures import summary

PROMPTS = [LoadPrompt(f"q{n}", "qa", [{"role": "user", "content": f"Question {n}"}]) for n in range(5)]


def test_closed_loop_loses_no_request_and_no_count(start_fake: Callable[..., Any]) -> None:
    server = start_fake(depth=3)
    result = run_load(server.url, "toy", PROMPTS, Load(8, None, 60.0, 24, max_requests=40))
    row = summary(result)
    assert (row["requests"], row["answered"], row["failed"], row["cut"]) == (40, 40, 0, 0)
    assert sorted(one.number for one in result.records) == list(range(40))
    assert all(one.tokens == 24 and one.finish == "length" for one in result.records)
    assert result.counters is not None and result.counters.generated == 40 * 24
    assert result.counters.draft_tokens == 3 * result.counters.drafts > 0
    assert sum(result.counters.by_position) == result.counters.accepted
    digests = {
        one.prompt: {other.digest for other in result.records if other.prompt == one.prompt} for one in result.records
    }
    assert len(digests) == 5 and all(len(found) == 1 for found in digests.values())


def test_drafts_change_no_answer_and_arrive_in_fewer_pieces(start_fake: Callable[..., Any]) -> None:
    found = {}
    for depth in (0, 3):
        load = Load(1, None, 60.0, 24, max_requests=5)
        found[depth] = run_load(start_fake(depth=depth).url, "toy", PROMPTS, load).records
    assert [one.digest for one in found[0]] == [one.digest for one in found[3]]
    assert all(len(drafted.pieces) < len(plain.pieces) for drafted, plain in zip(found[3], found[0], strict=True))


def test_open_loop_sends_at_random_times_that_a_seed_repeats(start_fake: Callable[..., Any]) -> None:
    server = start_fake(depth=0)
    load = Load(None, 200.0, 60.0, 4, max_requests=30, seed=3)
    result = run_load(server.url, "toy", PROMPTS, load)
    assert len(result.records) == 30 and not any(one.error for one in result.records)
    sent = [one.sent_s for one in sorted(result.records, key=lambda one: one.number)]
    gaps = [b - a for a, b in pairwise(sent)]
    assert max(gaps) > 2 * min(gaps)  # not one a tick


def test_a_server_of_another_make_is_measured_without_counts(start_fake: Callable[..., Any]) -> None:
    server = start_fake(depth=2, plain_http=True)
    result = run_load(server.url, "toy", PROMPTS, Load(2, None, 60.0, 8, max_requests=4))
    assert result.counters is None and summary(result)["answered"] == 4
    raw = [LoadPrompt("q", "", "Say something")]
    told = run_load(server.url, "toy", raw, Load(1, None, 60.0, 8, max_requests=2, api="completions"))
    assert summary(told)["answered"] == 2


def test_a_server_killed_in_the_middle_is_reported_and_what_there_is_is_kept(start_fake: Callable[..., Any]) -> None:
    server = start_fake(depth=3, step_s=0.02)
    seen: list[str] = []

    def keep(record: Any) -> None:
        seen.append(record.finish)
        if len(seen) == 4:
            threading.Thread(target=server.kill).start()

    result = run_load(server.url, "toy", PROMPTS, Load(4, None, 60.0, 16), keep)
    assert result.seconds < 60
    assert result.gone is not None and server.url in result.gone
    assert sum(one.error is None for one in result.records) >= 4
    assert len(seen) == len(result.records)


def test_stopping_and_refusing(start_fake: Callable[..., Any]) -> None:
    server = start_fake(depth=0, step_s=0.02)
    with pytest.raises(Cancelled, match="stopped"):
        run_load(server.url, "toy", PROMPTS, Load(2, None, 60.0, 8), stopped=lambda: True)
    with pytest.raises(HeadwayError, match="maximum context length"):
        run_load(server.url, "toy", PROMPTS, Load(1, None, 60.0, 100_000))
    with pytest.raises(HeadwayError, match="no prompts"):
        run_load(server.url, "toy", [], Load(1, None, 1.0, 8))
    server.kill()
    with pytest.raises(ServerGone, match="Nothing answers"):
        run_load(server.url, "toy", PROMPTS, Load(1, None, 1.0, 8))
