"""The store: the one door to everything remembered.

The contract, which every database behind it keeps (one test suite runs for all):

- Each call is one short transaction: when it returns, the change is committed and other threads and processes see it;
  when it raises, nothing of it is stored.
- Calls may come from any thread, and any number of processes may open the same database; writers wait their turn, up to
  the busy timeout. After a fork the child opens its own store.
- Records handed out are frozen copies. Text comes back exactly as given: NUL, lone surrogates, markup, emoji.
- Registering a version or drafter twice gives the same record; the first registration's description stays.
- A run goes queued -> running -> finished | cancelled | failed | interrupted and never back. Of two calls that end the
  same run one succeeds, the other raises StoreError.
- Steps are appended in chunks of 1 to 64 that continue each other without gap or overlap, to a running run only.
- What a person can mend raises `StoreError` with one sentence: `NotFoundError` for unknown ids, `UnavailableError`
  where trying again later may help. Values that no person typed (a chunk of 65 steps) raise ValueError.

Knows nothing of models; what is inside settings, messages and steps is the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Engine, exc
from sqlalchemy.orm import Session

from storage import catalogue, retention, runs
from storage.engine import (
    BUSY_TIMEOUT_S,
    check_folder,
    check_health,
    for_writing,
    give_back_space,
    location,
    make_engine,
    resolve_url,
    sqlite_file,
)
from storage.errors import one_sentence
from storage.identifiers import new_run_id
from storage.owner import owner_is_alive, owner_token
from storage.records import (
    DrafterRecord,
    RunFilter,
    RunOrder,
    RunRecord,
    RunResult,
    RunSummary,
    StoreUsage,
    VersionIdentity,
    VersionRecord,
)
from storage.tables import DecodeRun, Drafter, Version
from storage.upgrade import upgrade

_ANY = RunFilter()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """Versions, drafters, decode runs and their steps in one database. See the module for the contract."""

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = _utc_now) -> None:
        """A store on a database that already has the schema of this code; `open` makes sure of that."""
        self.location = location(engine.url)
        self._engine = engine
        self._writer = for_writing(engine)
        self._clock = clock
        in_memory = engine.url.get_backend_name() == "sqlite" and sqlite_file(engine.url) is None
        # In memory there is one connection for all threads, so they take turns.
        self._turn = threading.RLock() if in_memory else nullcontext()

    @classmethod
    def open(
        cls,
        url_or_path: str | Path,
        *,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        clock: Callable[[], datetime] = _utc_now,
    ) -> Self:
        """Open, create or upgrade the database at a path, a SQLAlchemy URL or `:memory:`.

        StoreError: folder or file not writable, damaged, another program's, of a newer schema, locked, out of reach.
        """
        url = resolve_url(url_or_path)
        path = sqlite_file(url)
        if path is not None:
            check_folder(path)
        engine = make_engine(url, busy_timeout_s=busy_timeout_s)
        try:
            check_health(engine)
            if path is None and url.get_backend_name() == "sqlite":
                with for_writing(engine).begin() as connection:
                    upgrade(url, connection=connection)
            else:
                upgrade(url, busy_timeout_s=busy_timeout_s)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, clock=clock)

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with self._turn, one_sentence(self.location), Session(self._engine) as session:
            yield session

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with self._turn, one_sentence(self.location), Session(self._writer) as session, session.begin():
            yield session

    # Versions and drafters

    def register_version(
        self,
        identity: VersionIdentity,
        *,
        label: str,
        source: str,
        model_type: str,
        num_parameters: int,
        notes: str = "",
        details: dict[str, Any] | None = None,
    ) -> VersionRecord:
        """The version with this identity, made if there is none yet."""
        id = catalogue.version_id(identity)
        with self._writing() as session:
            if session.get(Version, id) is None:
                row = Version(
                    id=id,
                    label=label,
                    source=source,
                    model_type=model_type,
                    num_parameters=num_parameters,
                    created_at=self._clock(),
                    notes=notes,
                    details=details or {},
                    **vars(identity),
                )
                _insert_unless_there(session, row)
            return catalogue.get_version(session, id)

    def register_drafter(
        self,
        *,
        family: str,
        name: str,
        path: str,
        weights_hash: str,
        version_id: str,
        config: dict[str, Any] | None = None,
        lineage: dict[str, Any] | None = None,
    ) -> DrafterRecord:
        """The drafter with this weights hash for this version, made if there is none yet.

        weights_hash: for drafters without weights (n-gram lookup), the hash of their configuration.
        """
        id = catalogue.drafter_id(weights_hash, version_id)
        with self._writing() as session:
            catalogue.get_version(session, version_id)
            if session.get(Drafter, id) is None:
                row = Drafter(
                    id=id,
                    family=family,
                    name=name,
                    path=path,
                    weights_hash=weights_hash,
                    version_id=version_id,
                    created_at=self._clock(),
                    config=config or {},
                    lineage=lineage or {},
                )
                _insert_unless_there(session, row)
            return catalogue.get_drafter(session, id)

    def get_version(self, version_id: str) -> VersionRecord:
        """One version by id."""
        with self._reading() as session:
            return catalogue.get_version(session, version_id)

    def list_versions(self) -> list[VersionRecord]:
        """All versions, the newest first."""
        with self._reading() as session:
            return catalogue.list_versions(session)

    def get_drafter(self, drafter_id: str) -> DrafterRecord:
        """One drafter by id."""
        with self._reading() as session:
            return catalogue.get_drafter(session, drafter_id)

    def list_drafters(self, version_id: str | None = None) -> list[DrafterRecord]:
        """All drafters, or those of one version, the newest first."""
        with self._reading() as session:
            return catalogue.list_drafters(session, version_id)

    # Runs

    def create_run(
        self,
        *,
        prompt: str,
        drafter_name: str,
        settings: dict[str, Any],
        messages: list[dict[str, Any]] | None = None,
        version_id: str | None = None,
        drafter_id: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        notes: str = "",
    ) -> str:
        """A new queued run; returns its id.

        settings: the conditions of every number the run gives (rule, tree, temperature, seed, device, dtype …).
        owner: token of the process that answers for the run, this one by default: when it dies, `mark_interrupted`
        ends the run.
        """
        id = new_run_id()
        with self._writing() as session:
            if version_id is not None:
                catalogue.get_version(session, version_id)
            if drafter_id is not None:
                catalogue.get_drafter(session, drafter_id)
            row = DecodeRun(
                id=id,
                created_at=self._clock(),
                status="queued",
                owner=owner or owner_token(),
                version_id=version_id,
                drafter_id=drafter_id,
                drafter_name=drafter_name,
                contended=False,
                traces_pruned=False,
                tags=list(tags),
                settings=settings,
                notes=notes,
                prompt=prompt,
                messages=messages,
            )
            session.add(row)
        return id

    def start_run(
        self,
        run_id: str,
        *,
        owner: str | None = None,
        settings: dict[str, Any] | None = None,
        version_id: str | None = None,
        drafter_id: str | None = None,
    ) -> None:
        """queued -> running; a process that takes over a run another one created names itself as owner.

        What only became known when target and drafter were loaded (the full conditions, their records) is put in its
        place.
        """
        known = {"owner": owner, "settings": settings, "version_id": version_id, "drafter_id": drafter_id}
        with self._writing() as session:
            runs.start(session, run_id, self._clock(), **known)

    def append_steps(self, run_id: str, first_step: int, steps: Sequence[dict[str, Any]]) -> None:
        """Add a chunk of 1 to 64 steps whose first has the number `first_step`, counted from 0 over the run."""
        with self._writing() as session:
            runs.append_steps(session, run_id, first_step, steps)

    def finish_run(self, run_id: str, result: RunResult) -> None:
        """running -> finished."""
        with self._writing() as session:
            runs.end(session, run_id, "finished", self._clock(), result, None)

    def cancel_run(self, run_id: str, result: RunResult | None = None) -> None:
        """queued or running -> cancelled, with what was decoded so far."""
        with self._writing() as session:
            runs.end(session, run_id, "cancelled", self._clock(), result, None)

    def fail_run(self, run_id: str, error: str, result: RunResult | None = None) -> None:
        """queued or running -> failed, with one sentence that says why."""
        with self._writing() as session:
            runs.end(session, run_id, "failed", self._clock(), result, error)

    def mark_interrupted(self, is_alive: Callable[[str], bool] = owner_is_alive) -> list[str]:
        """End the runs that dead processes left queued or running; called at start-up, returns their ids."""
        with self._writing() as session:
            return runs.mark_interrupted(session, is_alive, self._clock())

    def get_run(self, run_id: str) -> RunRecord:
        """One run with everything but its steps."""
        with self._reading() as session:
            return runs.get(session, run_id)

    def list_runs(
        self, where: RunFilter = _ANY, *, order: RunOrder = "newest", limit: int = 50, offset: int = 0
    ) -> list[RunSummary]:
        """One page of the table of runs."""
        with self._reading() as session:
            return runs.summaries(session, where, order, limit, offset)

    def count_runs(self, where: RunFilter = _ANY) -> int:
        """How many runs a filter leaves."""
        with self._reading() as session:
            return runs.count(session, where)

    def num_stored_steps(self, run_id: str) -> int:
        """How many steps of a run are stored: what a page that re-attaches can read at once."""
        with self._reading() as session:
            return runs.num_stored_steps(session, run_id)

    def steps(self, run_id: str, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """Steps start to stop - 1 (all from start without stop), fewer where fewer are stored."""
        with self._reading() as session:
            return runs.read_steps(session, run_id, start, stop)

    def annotate_run(self, run_id: str, *, tags: Sequence[str] | None = None, notes: str | None = None) -> None:
        """Replace a run's tags, notes, or both."""
        with self._writing() as session:
            runs.annotate(session, run_id, tags, notes)

    def delete_run(self, run_id: str) -> None:
        """Delete a run that has ended, with its steps."""
        with self._writing() as session:
            runs.delete(session, run_id)

    # House-keeping

    def prune_traces(self, *, keep_runs: int | None = None, max_bytes: int | None = None) -> list[str]:
        """Drop the oldest traces until at most `keep_runs` runs and `max_bytes` bytes of them are left.

        Run rows stay and are marked; open runs are not touched. Returns the ids of the runs that lost their traces.
        """
        with self._writing() as session:
            pruned = retention.prune(session, keep_runs, max_bytes)
        if pruned:
            give_back_space(self._engine)
        return pruned

    def usage(self) -> StoreUsage:
        """How much is stored."""
        with self._reading() as session:
            num_runs, num_traced, trace_bytes = retention.totals(session)
        path = sqlite_file(self._engine.url)
        parts = [] if path is None else [path, path.with_name(path.name + "-wal")]
        size = sum(part.stat().st_size for part in parts if part.exists()) if parts else None
        return StoreUsage(num_runs=num_runs, num_traced_runs=num_traced, trace_bytes=trace_bytes, file_bytes=size)


def _insert_unless_there(session: Session, row: Version | Drafter) -> None:
    # Where writers do not exclude each other (PostgreSQL), another process may have inserted the same row meanwhile.
    try:
        with session.begin_nested():
            session.add(row)
    except exc.IntegrityError:
        return
