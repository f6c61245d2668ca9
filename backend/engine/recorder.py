"""Writes what a decode run yields into the store, in chunks, so that it can be replayed after a restart.

The store's item 0 of a run is its prefill, items 1, 2, ... are its steps, and the last one may say how fast plain
decoding was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backend.decoding.records import DecodeResult
from backend.engine.protocol import Event
from storage import RunRecord, RunResult, Store

CHUNK = 64


class Recorder:
    """Buffers one run's records; `flush` writes what is left."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._buffer: list[dict[str, Any]] = []
        self._written = 0

    def add(self, record: dict[str, Any]) -> None:
        self._buffer.append(record)
        if len(self._buffer) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        if self._buffer:
            self._store.append_steps(self._run_id, self._written, self._buffer)
            self._written += len(self._buffer)
            self._buffer = []


def stored_result(result: DecodeResult, contended: bool) -> RunResult:
    return RunResult(
        text=result.text,
        tokens=tuple(result.tokens),
        finish_reason=result.finish_reason,
        prompt_tokens=result.prompt_tokens,
        num_tokens=len(result.tokens),
        num_steps=result.num_steps,
        num_drafted=result.num_drafted,
        num_accepted=result.num_accepted,
        num_cut=result.num_cut,
        accepted_per_depth=tuple(result.accepted_per_depth),
        drafted_per_depth=tuple(result.drafted_per_depth),
        prefill_ms=result.prefill_ms,
        draft_ms=result.draft_ms,
        verify_ms=result.verify_ms,
        commit_ms=result.commit_ms,
        overhead_ms=result.overhead_ms,
        wall_ms=result.prefill_ms + result.decode_ms,
        contended=contended,
    )


def replay(store: Store, run: RunRecord) -> Iterator[Event]:
    """The events of a run that ended in an earlier process, as far as they were stored."""
    seq = 1
    yield Event(seq, "started", {"conditions": run.settings, "warnings": [], "stored": True, "status": run.status})
    plain: dict[str, Any] | None = None
    for record in store.steps(run.id):
        if record["kind"] == "plain":
            plain = record
            continue
        seq += 1
        yield Event(seq, str(record["kind"]), record)
    if run.status in ("failed", "interrupted"):
        yield Event(seq + 1, "failed", {"error": run.error or "This run was interrupted when its process ended."})
    elif run.status in ("queued", "running"):
        yield Event(seq + 1, "failed", {"error": "This run is still going on in another Headway; open it again later."})
    elif run.num_tokens is None:
        yield Event(seq + 1, "cancelled", {})
    else:
        yield Event(seq + 1, "result", result_data(_as_result(run), plain, run.contended))


def result_data(result: DecodeResult, plain: dict[str, Any] | None, contended: bool) -> dict[str, Any]:
    """The data of a result event: the result, and plain decoding's measured speed beside it."""
    return result.to_dict() | {
        "plain_tokens_per_s": plain["tokens_per_s"] if plain else None,
        "plain_step_ms": plain["step_ms"] if plain else None,
        "contended": contended,
    }


def _as_result(run: RunRecord) -> DecodeResult:
    return DecodeResult(
        row=0,
        prompt_tokens=run.prompt_tokens or 0,
        tokens=list(run.tokens or ()),
        text=run.text or "",
        num_steps=run.num_steps or 0,
        num_drafted=run.num_drafted or 0,
        num_accepted=run.num_accepted or 0,
        num_cut=run.num_cut or 0,
        accepted_per_depth=list(run.accepted_per_depth or ()),
        drafted_per_depth=list(run.drafted_per_depth or ()),
        prefill_ms=run.prefill_ms or 0.0,
        draft_ms=run.draft_ms or 0.0,
        verify_ms=run.verify_ms or 0.0,
        commit_ms=run.commit_ms or 0.0,
        overhead_ms=run.overhead_ms or 0.0,
        finish_reason=run.finish_reason or "cancelled",
    )
