"""The part of the store about decode runs and their steps. See `store` for the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from storage import catalogue, run_list, runs
from storage.engine import give_back_space
from storage.identifiers import new_id
from storage.owner import owner_is_alive, owner_token
from storage.records import RunFilter, RunGroup, RunOrder, RunRecord, RunResult, RunSort, RunSummary
from storage.store_base import StoreBase
from storage.tables import DecodeRun

_ANY = RunFilter()


class RunStore(StoreBase):
    """Decode runs and their steps."""

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
        run_id: str | None = None,
    ) -> str:
        """A new queued run; returns its id, which is `run_id` where the caller has made one (see identifiers.new_id).

        settings: the conditions of every number the run gives (rule, tree, temperature, seed, device, dtype …).
        owner: token of the process that answers for the run, this one by default: when it dies, `mark_interrupted`
        ends the run.
        """
        id = run_id or new_id()
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

    def get_runs(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Some runs with everything but their steps, in this order."""
        with self._reading() as session:
            return runs.several(session, run_ids)

    def list_runs(
        self, where: RunFilter = _ANY, *, order: RunOrder | RunSort = "newest", limit: int = 50, offset: int = 0
    ) -> list[RunSummary]:
        """One page of the table of runs."""
        with self._reading() as session:
            return run_list.summaries(session, where, order, limit, offset)

    def find_runs(
        self, where: RunFilter = _ANY, *, order: RunOrder | RunSort = "newest", limit: int = 50, offset: int = 0
    ) -> tuple[list[RunSummary], int]:
        """One page of the table of runs, and how many runs the filter leaves: in half the time of asking twice."""
        with self._reading() as session:
            return run_list.page(session, where, order, limit, offset)

    def count_runs(self, where: RunFilter = _ANY) -> int:
        """How many runs a filter leaves."""
        with self._reading() as session:
            return run_list.count(session, where)

    def group_runs(self, where: RunFilter = _ANY, *, by: str) -> list[RunGroup]:
        """Counts and means of the runs a filter leaves, the largest group first.

        by: drafter_name, drafter_id, version_id, status, finish_reason, contended; `tag` (a run is in the group of each
        of its tags); or a place in the settings such as `settings.request.temperature`.
        """
        with self._reading() as session:
            return run_list.grouped(session, where, by)

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

    def trash_runs(self, run_ids: Sequence[str]) -> list[str]:
        """Put ended runs into the waste basket, where lists leave them out; all of them or, on an error, none.

        Returns the ids of the runs that were not in it, which is what an undo gives to `restore_runs`.
        """
        with self._writing() as session:
            return runs.trash(session, run_ids, self._clock())

    def restore_runs(self, run_ids: Sequence[str]) -> list[str]:
        """Take runs out of the waste basket; returns the ids of those that were in it."""
        with self._writing() as session:
            return runs.restore(session, run_ids)

    def purge_trash(self, before: datetime | None = None) -> list[str]:
        """Delete for good what is in the waste basket, or what was put there before a moment; returns the ids."""
        with self._writing() as session:
            purged = runs.purge(session, before)
        if purged:
            give_back_space(self._engine)
        return purged
