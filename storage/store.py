"""The store: the one door to everything remembered.

The contract, which every database behind it keeps (one test suite runs for all):

- Each call is one short transaction: when it returns, the change is committed and other threads and processes see it;
  when it raises, nothing of it is stored.
- Calls may come from any thread, and any number of processes may open the same database; writers wait their turn, up to
  the busy timeout. After a fork the child opens its own store.
- Records handed out are frozen copies. Text comes back exactly as given: NUL, lone surrogates, markup, emoji.
- Registering a version, drafter or dataset twice gives the same record; the first registration's description stays.
- A run goes queued -> running -> finished | cancelled | failed | interrupted and never back. Of two calls that end the
  same run one succeeds, the other raises StoreError.
- A race is the runs that are its lanes: when the last of them is deleted for good, the race is gone.
- Steps are appended in chunks of 1 to 64 that continue each other without gap or overlap, to a running run only.
- A job is leased by exactly one of several processes, and each lease gives it a new attempt number. A worker writes
  with that number: a write of an earlier attempt, or to a job that is not running, raises `StaleAttemptError` and
  changes nothing. What one job writes is numbered by one counter in the order of the commits. `jobs` lists the states.
- What a person can mend raises `StoreError` with one sentence: `NotFoundError` for unknown ids, `UnavailableError`
  where trying again later may help. Values that no person typed (a chunk of 65 steps) raise ValueError.

Knows nothing of models; what is inside settings, messages and steps is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storage import garbage, retention
from storage.engine import give_back_space, sqlite_file
from storage.garbage import Orphan
from storage.records import StoreUsage
from storage.store_catalogue import CatalogueStore
from storage.store_jobs import JobStore
from storage.store_races import RaceStore
from storage.store_runs import RunStore


class Store(CatalogueStore, RunStore, RaceStore, JobStore):
    """Versions, drafters, datasets, decode runs, races, jobs in one database. See the module for the contract."""

    def prune_traces(self, *, keep_runs: int | None = None, max_bytes: int | None = None) -> list[str]:
        """Drop the oldest traces until at most `keep_runs` runs and `max_bytes` bytes of them are left.

        Run rows stay and are marked; open runs are not touched. Returns the ids of the runs that lost their traces.
        """
        with self._writing() as session:
            pruned = retention.prune(session, keep_runs, max_bytes)
        if pruned:
            give_back_space(self._engine)
        return pruned

    def usage(self, folders: Mapping[str, Path] | None = None) -> StoreUsage:
        """How much is stored, in the database and in the folders of files that belong to it."""
        with self._reading() as session:
            totals = retention.totals(session)
        path = sqlite_file(self._engine.url)
        parts = [] if path is None else [path, path.with_name(path.name + "-wal")]
        size = sum(part.stat().st_size for part in parts if part.exists()) if parts else None
        folder_bytes = {name: garbage.size_of(folder) for name, folder in (folders or {}).items()}
        return StoreUsage(**totals, file_bytes=size, folder_bytes=folder_bytes)

    def is_empty(self) -> bool:
        """Whether nothing was ever stored, as in a database that was just made."""
        with self._reading() as session:
            return retention.is_empty(session)

    def find_orphans(self, homes: Mapping[str, Path]) -> list[Orphan]:
        """Files and folders in these folders that no row refers to and nobody touched for an hour, the largest first.

        homes: folders by name, each holding one entry a thing; the one named `artifacts` holds files by hash.
        `delete_orphan` deletes one.
        """
        with self._reading() as session:
            return garbage.find(session, homes, self._clock().timestamp())
