"""What records of a load test say, on numbers that can be worked out by hand."""

from __future__ import annotations

import pytest

from backend.serving.load import Load, LoadResult, RequestRecord
from backend.serving.load_figures import (
    break_even,
    compared,
    figures,
    joined,
    percentiles,
    same_answers,
    summary,
    time_per_token_ms,
    tokens_within,
)

LOAD = Load(clients=2, rate=None, seconds=10.0, max_tokens=8)


def record(number: int, sent: float, pieces: list[tuple[float, int]], **more: object) -> RequestRecord:
    one = RequestRecord(
        number, f"p{number}", "qa", sent, pieces[0][0], pieces[-1][0], sum(n for _, n in pieces), "length"
    )
    one.pieces = pieces
    for name, value in more.items():
        setattr(one, name, value)
    return one


def test_summary_counts_what_arrived_while_requests_were_sent() -> None:
    records = [
        record(0, 0.0, [(1.0, 1), (2.0, 3), (3.0, 4)]),
        record(1, 0.0, [(2.0, 1), (12.0, 7)]),
        record(2, 1.0, [(3.0, 1)], error="broken", finish="error"),
        record(3, 1.0, [(4.0, 1)], finish="cut"),
    ]
    row = summary(LoadResult(LOAD, tuple(records), 10.0, None, None))
    assert (row["requests"], row["answered"], row["failed"], row["cut"]) == (4, 2, 1, 1)
    assert row["tokens_per_s"] == pytest.approx((8 + 1 + 1 + 1) / 10)  # the last 7 of the second came too late
    assert row["ttft_ms"]["p50"] == pytest.approx(1500)
    assert row["drafts"] is None


def test_time_per_token_leaves_the_first_piece_out() -> None:
    assert time_per_token_ms(record(0, 0.0, [(1.0, 2), (2.0, 3), (3.0, 1)])) == pytest.approx(500)
    assert time_per_token_ms(record(0, 0.0, [(1.0, 4)])) is None
    untold = record(0, 0.0, [(1.0, 1), (3.0, 1)], tokens=8)  # a piece is not a token: 4 a piece
    assert time_per_token_ms(untold) == pytest.approx(500)
    assert tokens_within([untold], 2.0) == pytest.approx(4)


def test_percentiles() -> None:
    assert percentiles([]) is None
    assert percentiles([float(n) for n in range(101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}


@pytest.mark.parametrize(
    ("speedups", "even"),
    [
        ([(1, 2.0), (4, 0.5)], pytest.approx(2 ** (2 * 2 / 3), abs=0.01)),
        ([(1, 2.0), (2, 1.0), (4, 0.5)], pytest.approx(2.0)),
        ([(1, 2.0), (64, 1.2)], None),
        ([(1, 0.9), (64, 0.5)], None),
        ([(1, 1.5), (2, 0.9), (4, 1.2), (8, 0.8)], pytest.approx(5.66, abs=0.01)),
        ([], None),
    ],
)
def test_break_even(speedups: list[tuple[int, float]], even: object) -> None:
    assert break_even(speedups[::-1]) == even


def row(arm: str, clients: int, speed: float, round_: int = 0) -> dict[str, object]:
    drafts = {"drafts": 10, "draft_tokens": 20, "accepted": 6, "by_position": [5, 1]} if arm != "plain" else None
    times = {"p50": 10.0 * speed, "p95": 1.0, "p99": 1.0}
    return {"arm": arm, "clients": clients, "rate": None, "seconds": 10.0, "requests": 4, "answered": 3, "failed": 1,
            "cut": 0, "tokens": 30, "tokens_per_s": speed, "requests_per_s": 1.0, "ttft_ms": times, "tpot_ms": None,
            "latency_ms": None, "drafts": drafts, "round": round_}  # fmt: skip


def test_rounds_are_joined_and_arms_compared() -> None:
    rows = [row("with drafts", 1, 20.0), row("with drafts", 1, 40.0, 1), row("plain", 1, 10.0), row("plain", 4, 50.0),
            row("with drafts", 4, 25.0)]  # fmt: skip
    one = joined(rows[:2])
    assert (one["tokens_per_s"], one["seconds"], one["rounds"], one["failed"]) == (30.0, 20.0, 2, 2)
    assert one["drafts"]["by_position"] == [10, 2] and one["drafts"]["rates"] == [0.5, 0.1]
    found = figures({str(n): one for n, one in enumerate(rows)}, [])
    assert [(r["arm"], r["clients"]) for r in found["rows"]] == [
        ("plain", 1), ("with drafts", 1), ("plain", 4), ("with drafts", 4),
    ]  # fmt: skip
    assert [r["speedup"] for r in found["speedups"]] == [3.0, 0.5]
    assert found["break_even"] == pytest.approx(3.03, abs=0.01)
    assert compared([], []) == ([], None)


def test_same_answers_are_told_by_their_digests() -> None:
    def answer(prompt: str, digest: str, finish: str = "stop") -> dict[str, object]:
        return {"prompt": prompt, "digest": digest, "finish": finish, "error": None}

    one = [answer("a", "1"), answer("b", "2"), answer("c", "3", "cut"), answer("a", "9")]
    other = [answer("a", "9"), answer("b", "x"), answer("c", "3")]
    assert same_answers(one, other) == (1, 2)
