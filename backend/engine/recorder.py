"""What a decode run says to the store: created, started, its steps in chunks, ended; and the replay after a restart.

The store's item 0 of a run is its prefill, items 1, 2, ... are its steps, and the last one may say how fast plain
decoding was. Every write may be tried again after one whose answer was lost, so each first looks whether it was made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal

from backend.decoding.records import DecodeResult
from backend.engine.keeper import Keeper, Kept
from backend.engine.protocol import Event, Race
from storage import NotFoundError, RunRecord, RunResult, Store

CHUNK = 64


class Recorder:
    """One run's way into the store; nothing here waits for the database but `settle`."""

    def __init__(self, keeper: Keeper, store: Store, run_id: str) -> None:
        self._keeper, self._store, self._kept = keeper, store, Kept(run_id)
        self._run_id = run_id
        self._buffer: list[dict[str, Any]] = []
        self._put = 0

    @property
    def waits(self) -> bool:
        """Whether something of the run is not stored yet, and still may be."""
        return self._kept.waiting > 0

    def create(self, **values: Any) -> None:
        """See Store.create_run."""

        def write(again: bool) -> None:
            if again:
                with suppress(NotFoundError):
                    self._store.get_run(self._run_id)
                    return
            self._store.create_run(run_id=self._run_id, **values)

        self._keeper.put(self._kept, write, len(json.dumps(values, default=str)))

    def race(self, race: Race) -> None:
        """That this run and others, created before, are the lanes of a race."""

        def write(again: bool) -> None:
            if again:
                with suppress(NotFoundError):
                    self._store.get_race(race.id)
                    return
            self._store.create_race(race.id, race.runs)

        self._keeper.put(self._kept, write)

    def start(self, settings: dict[str, Any], register: Callable[[], tuple[str, str | None]]) -> None:
        """`register` gives the ids of version and drafter; see Store.start_run."""

        def write(again: bool) -> None:
            version_id, drafter_id = register()
            if not again or self._store.get_run(self._run_id).status == "queued":
                self._store.start_run(self._run_id, settings=settings, version_id=version_id, drafter_id=drafter_id)

        self._keeper.put(self._kept, write)

    def add(self, record: dict[str, Any]) -> None:
        """A prefill or a step. Raises StoreError when the store has refused an earlier one."""
        if self._kept.error is not None:
            raise self._kept.error
        if self._kept.missing:  # there must be no gap in what is stored
            self._kept.missing += 1
            return
        self._buffer.append(record)
        if len(self._buffer) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Hand over what was collected; where no room is left for it, it is counted as missing."""
        chunk, self._buffer = self._buffer, []
        if not chunk:
            return
        if not self._keeper.has_room():
            self._kept.missing += len(chunk)
            return
        self._append(chunk)

    def plain(self, record: dict[str, Any]) -> None:
        """The last item, small enough to have always room."""
        self.flush()
        self._append([record])

    def _append(self, chunk: list[dict[str, Any]]) -> None:
        first, self._put = self._put, self._put + len(chunk)

        def write(again: bool) -> None:
            if not again or self._store.num_stored_steps(self._run_id) <= first:
                self._store.append_steps(self._run_id, first, chunk)

        waiting = self.waits  # measured only where it may have to wait long
        self._keeper.put(self._kept, write, len(json.dumps(chunk)) if waiting else 0)

    def end(self, status: Literal["finished", "cancelled"], result: RunResult | None) -> None:
        """The last write."""
        self.flush()

        def write(again: bool) -> None:
            if again and self._store.get_run(self._run_id).status == status:
                return
            if self._kept.missing:
                self._store.annotate_run(self._run_id, notes=_MISSING.format(self._kept.missing))
            if status == "finished" and result is not None:
                self._store.finish_run(self._run_id, result)
            else:
                self._store.cancel_run(self._run_id, result)

        self._keeper.put(self._kept, write, len(json.dumps(result.text)) if result is not None else 0)

    def settle(self) -> None:
        """Wait until all is stored, or the database is found to be away: then it is stored later.

        Raises StoreError when the store refused something.
        """
        self._keeper.settle(self._kept)


_MISSING = "The database was away while this ran, and its last {} steps had no room in memory; they were not stored."


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
