"""What the records of load tests say: throughput, times and their percentiles, and from how many clients on drafting no
longer pays. Pure functions of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from backend.serving.load import LoadResult, RequestRecord

PERCENTILES: Final = (50, 95, 99)
DRAFTS, PLAIN = "with drafts", "plain"  #: the two arms of a test


def summary(result: LoadResult) -> dict[str, Any]:
    """One test as a row of a table. Times in milliseconds.

    tokens_per_s counts what arrived while requests were being sent, so that the quiet end of a test does not lower it.
    `ttft`: time to the first token; `tpot`: time of an output token after the first, a request's mean; `latency`: of
    the whole answer: each {p50, p95, p99} over requests, None where there are none.
    """
    whole = [one for one in result.records if one.error is None and one.finish != "cut"]
    window = max(result.seconds, 1e-9)
    counters = result.counters
    return {
        "clients": result.load.clients,
        "rate": result.load.rate,
        "seconds": round(result.seconds, 2),
        "requests": len(result.records),
        "answered": len(whole),
        "failed": sum(one.error is not None for one in result.records),
        "cut": sum(one.error is None and one.finish == "cut" for one in result.records),
        "tokens": sum(one.tokens for one in whole),
        "tokens_per_s": round(tokens_within(result.records, window) / window, 3),
        "requests_per_s": round(sum(_ended_by(one, window) for one in whole) / window, 4),
        "ttft_ms": percentiles([1000 * (one.first_s - one.sent_s) for one in whole if one.first_s is not None]),
        "tpot_ms": percentiles([value for value in map(time_per_token_ms, whole) if value is not None]),
        "latency_ms": percentiles([1000 * (one.last_s - one.sent_s) for one in whole if one.last_s is not None]),
        "gone": result.gone,
        "drafts": None if counters is None or not counters.counts_drafts else counters.to_dict(),
        "errors": sorted({one.error for one in result.records if one.error})[:3],
    }


def tokens_within(records: Sequence[RequestRecord], seconds: float) -> float:
    """Tokens that arrived in the first `seconds`. Where a server does not say how many a piece holds, an answer's
    tokens are spread over its pieces.
    """
    total = 0.0
    for one in records:
        told = sum(tokens for _, tokens in one.pieces)
        scale = one.tokens / told if told and one.tokens else 1.0
        total += scale * sum(tokens for at, tokens in one.pieces if at <= seconds)
    return total


def time_per_token_ms(record: RequestRecord) -> float | None:
    """Mean time between output tokens after the first piece; None for an answer of one piece.

    The first piece may hold more than one token, so what is divided by are the tokens behind it.
    """
    if record.first_s is None or record.last_s is None or len(record.pieces) < 2:
        return None
    told = sum(tokens for _, tokens in record.pieces)
    first = record.pieces[0][1] * (record.tokens / told if told and record.tokens else 1.0)
    behind = max(record.tokens, told) - first
    return 1000 * (record.last_s - record.first_s) / behind if behind > 0 else None


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """{p50, p95, p99}, interpolated; None of nothing."""
    if not values:
        return None
    found = np.percentile(np.asarray(values, dtype=float), PERCENTILES)
    return {f"p{which}": round(float(value), 3) for which, value in zip(PERCENTILES, found, strict=True)}


def figures(items: Mapping[str, Mapping[str, Any]], raw: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all measured parts (rows of `summary` with their arm) say: a row for each arm and load, and what drafting
    changed. `raw`: the requests of all parts, for the share of equal answers.
    """
    grouped: dict[tuple[str, Any, Any], list[Mapping[str, Any]]] = {}
    for row in items.values():
        grouped.setdefault((row["arm"], row["clients"], row["rate"]), []).append(row)
    rows = [{"arm": arm, **joined(found)} for (arm, _, _), found in grouped.items()]
    rows.sort(key=lambda row: (row["rate"] or 0, row["clients"] or 0, row["arm"]))
    by_arm = {arm: [row for row in rows if row["arm"] == arm] for arm in (DRAFTS, PLAIN)}
    speedups, even = compared(by_arm[DRAFTS], by_arm[PLAIN])
    same, both = same_answers(*([row for row in raw if row["arm"] == arm] for arm in (DRAFTS, PLAIN)))
    return {
        "rows": rows, "speedups": speedups, "break_even": even,
        "same_answers": {"same": same, "of": both} if both else None,
    }  # fmt: skip


def joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several rounds of the same arm and load: counts added, throughput over all their seconds, the medians of the
    rounds' percentiles, and the drafts of all.
    """
    seconds = sum(row["seconds"] for row in rows)
    found: dict[str, Any] = {name: rows[0][name] for name in ("clients", "rate")}
    for name in ("requests", "answered", "failed", "cut", "tokens"):
        found[name] = sum(row[name] for row in rows)
    found["seconds"], found["rounds"] = round(seconds, 2), len(rows)
    for name in ("tokens_per_s", "requests_per_s"):
        found[name] = round(sum(row[name] * row["seconds"] for row in rows) / seconds, 4) if seconds else 0.0
    for name in ("ttft_ms", "tpot_ms", "latency_ms"):
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = (
            {key: round(float(np.median([one[key] for one in known])), 3) for key in known[0]} if known else None
        )
    found["drafts"] = _drafts([row["drafts"] for row in rows if row["drafts"] is not None])
    found["tokens_per_s_rounds"] = [row["tokens_per_s"] for row in rows]
    return found


def compared(
    with_drafts: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], float | None]:
    """([{clients, rate, speedup}] for every load that both arms had, the break-even number of clients or None)."""
    other = {(row["clients"], row["rate"]): row for row in plain}
    rows = []
    for row in with_drafts:
        base = other.get((row["clients"], row["rate"]))
        if base is not None and base["tokens_per_s"] > 0:
            ratio = row["tokens_per_s"] / base["tokens_per_s"]
            rows.append({"clients": row["clients"], "rate": row["rate"], "speedup": round(ratio, 4)})
    return rows, break_even([(row["clients"], row["speedup"]) for row in rows if row["clients"] is not None])


def break_even(speedups: Sequence[tuple[int, float]]) -> float | None:
    """The number of clients at which a falling speedup passes 1, between measured numbers on a logarithmic axis.

    None when it stays on one side. Where it crosses more than once, the last crossing downward counts: beyond it
    drafting does not pay.
    """
    listed = sorted(speedups)
    found = None
    for (a, fast), (b, slow) in pairwise(listed):
        if fast >= 1 > slow:
            part = (fast - 1) / (fast - slow)
            found = round(2 ** (math.log2(a) + part * (math.log2(b) - math.log2(a))), 2)
    return found


def same_answers(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """(prompts whose greedy answer is the same in both arms, prompts both answered), told by the texts' digests.

    A prompt that was asked several times counts as the same when any of its answers is: batches round differently.
    """
    texts = [_texts(one), _texts(other)]
    both = texts[0].keys() & texts[1].keys()
    return sum(bool(texts[0][key] & texts[1][key]) for key in both), len(both)


def _texts(records: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for record in records:
        if record["error"] is None and record["finish"] != "cut":
            found.setdefault(record["prompt"], set()).add(record["digest"])
    return found


def _ended_by(record: RequestRecord, seconds: float) -> bool:
    return record.last_s is not None and record.last_s <= seconds


def _drafts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not rows:
        return None
    drafts = sum(row["drafts"] for row in rows)
    width = max(len(row["by_position"]) for row in rows)
    by_position = [
        sum(row["by_position"][place] for row in rows if place < len(row["by_position"])) for place in range(width)
    ]
    accepted = sum(row["accepted"] for row in rows)
    return {
        "drafts": drafts,
        "draft_tokens": sum(row["draft_tokens"] for row in rows),
        "accepted": accepted,
        "by_position": by_position,
        "rates": [count / drafts for count in by_position] if drafts else [],
        "acceptance_length": 1 + accepted / drafts if drafts else None,
    }
