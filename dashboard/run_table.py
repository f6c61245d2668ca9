"""What the Runs page asks: a page of the table, groups, a comparison, exports, tags, the waste basket, disk use.

Joins the store's answers for the page; knows no Gradio and no HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.errors import HeadwayError
from backend.retention import Retention, read_retention, write_retention
from dashboard.presenters.run_table import GROUPS, OWN_TREE, SORTS, comparison, group_row, table_row
from dashboard.services import Services
from storage import Store
from storage.records import RunFilter, RunSort

PAGE = 50
MAX_COMPARED = 8
MAX_EXPORTED = 100_000
MAX_TAGS = 40


@dataclass(frozen=True)
class Wanted:
    """What the page shows: text, sort, group and filters, as they stand in its address."""

    search: str = ""
    regex: bool = False
    sort: str = "at"
    descending: bool = True
    group: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    trashed: bool = False
    page: int = 0

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Wanted:
        """Raises HeadwayError for a name that the table does not have."""
        sort, group = query.get("sort") or "at", query.get("group") or ""
        if sort not in SORTS:
            raise HeadwayError(f"Runs can't be sorted by “{sort[:40]}”; choose one of the table's columns.")
        if group and group not in GROUPS:
            raise HeadwayError(f"Runs can't be grouped by “{group[:40]}”; there are: {', '.join(GROUPS)}.")
        page = query.get("page") or "0"
        return cls(
            search=(query.get("q") or "")[:2000],
            regex=query.get("regex") == "1",
            sort=sort,
            descending=query.get("desc", "1") != "0",
            group=group,
            filters=tuple((name, query[name]) for name in GROUPS if query.get(name)),
            trashed=query.get("trashed") == "1",
            page=int(page[:6]) if page.isascii() and page.isdigit() else 0,
        )

    def where(self) -> RunFilter:
        """The same for the store."""
        values: dict[str, Any] = {"regex" if self.regex else "search": self.search or None, "trashed": self.trashed}
        settings = []
        for name, value in self.filters:
            if name in ("drafter", "status"):
                values[name] = value
            elif name == "version":
                values["version_id"] = value
            elif name == "tag":
                values["tags"] = (value,)
            else:
                settings.append((GROUPS[name][1].rpartition(".")[2], _json(value)))
        if settings:
            values["settings"] = tuple(settings)
        return RunFilter(**values)


def _json(text: str) -> Any:
    """A setting's value as the address tells it. Raises HeadwayError for what is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise HeadwayError("The filter in the address can't be read; remove it.") from None


class RunTable:
    def __init__(self, services: Services) -> None:
        self._services = services

    def page(self, wanted: Wanted) -> dict[str, Any]:
        """{rows, total, page, pages, groups or None}."""
        where = wanted.where()
        if wanted.group:
            groups, total = self._groups(wanted, where), self._store.count_runs(where)
            return {"rows": [], "groups": groups, "total": total, "page": 0, "pages": 1, "names": self._names(wanted)}
        page = wanted.page
        found, total = self._find(wanted, where, page)
        pages = max(1, -(-total // PAGE))
        if page >= pages:  # the address is older than what was thrown away since
            page = pages - 1
            found, total = self._find(wanted, where, page)
        rows = [table_row(run) for run in found]
        return {
            "rows": rows,
            "groups": None,
            "total": total,
            "page": page,
            "pages": pages,
            "names": self._names(wanted),
        }

    def _find(self, wanted: Wanted, where: RunFilter, page: int) -> tuple[Sequence[Any], int]:
        sort = RunSort(by=SORTS[wanted.sort], descending=wanted.descending)
        return self._store.find_runs(where, order=sort, limit=PAGE, offset=page * PAGE)

    def _groups(self, wanted: Wanted, where: RunFilter) -> list[dict[str, Any]]:
        labels = {version.id: version.label for version in self._store.list_versions()}
        found = self._store.group_runs(where, by=GROUPS[wanted.group][1])
        return [group_row(group, wanted.group, labels) for group in found]

    def _names(self, wanted: Wanted) -> dict[str, str]:
        """What the filters of the address are called, as ids say nothing to people."""
        names = dict(wanted.filters)
        for name in ("tree", "rule"):
            if name in names:
                names[name] = str(_json(names[name]) or OWN_TREE)
        if "version" in names:
            known = {version.id: version.label for version in self._store.list_versions()}
            names["version"] = known.get(names["version"], names["version"])
        return names

    def rows(self, wanted: Wanted) -> list[dict[str, Any]]:
        """All that the filter leaves, in the order shown, for an export."""
        sort = RunSort(by=SORTS[wanted.sort], descending=wanted.descending)
        return [table_row(run) for run in self._store.list_runs(wanted.where(), order=sort, limit=MAX_EXPORTED)]

    def details(self, run_id: str) -> dict[str, Any]:
        """A row with notes, for editing."""
        run = self._store.get_run(run_id)
        return {**table_row(run), "notes": run.notes}

    def compare(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """Raises HeadwayError for fewer than two runs or too many."""
        different = list(dict.fromkeys(run_ids))
        if not 2 <= len(different) <= MAX_COMPARED:
            raise HeadwayError(f"Select two to {MAX_COMPARED} runs to compare them.")
        return comparison([self._store.get_run(run_id) for run_id in different])

    def tag(self, run_ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> dict[str, Any]:
        """Adds and takes away tags; a tag is one word or a few, without a comma."""
        for tag in add:
            if len(tag) > MAX_TAGS:
                raise HeadwayError(f"A tag has at most {MAX_TAGS} characters; use the notes for longer texts.")
        for run_id in run_ids:
            kept = [tag for tag in self._store.get_run(run_id).tags if tag not in remove]
            self._store.annotate_run(run_id, tags=tuple(dict.fromkeys([*kept, *add])))
        return {"changed": len(run_ids)}

    def note(self, run_id: str, text: str) -> dict[str, Any]:
        self._store.annotate_run(run_id, notes=text)
        return self.details(run_id)

    def trash(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """Into the waste basket; `moved` is what an undo has to give back."""
        return {"moved": self._store.trash_runs(list(run_ids))}

    def restore(self, run_ids: Sequence[str]) -> dict[str, Any]:
        return {"moved": self._store.restore_runs(list(run_ids))}

    def usage(self) -> dict[str, Any]:
        """What runs take on disk, and the bounds that were chosen."""
        places = self._services.places
        chosen = read_retention(places.home) if places else Retention()
        return {**vars(self._store.usage()), "retention": chosen.model_dump()}

    def prune(self, keep_runs: int | None, max_bytes: int | None) -> dict[str, Any]:
        """Drops recorded steps of the oldest runs; the runs and their numbers stay. The bounds hold at each start."""
        if self._services.places:
            write_retention(self._services.places.home, Retention(keep_runs=keep_runs, max_bytes=max_bytes))
        return {"pruned": len(self._store.prune_traces(keep_runs=keep_runs, max_bytes=max_bytes))}

    def purge(self) -> dict[str, Any]:
        """Empties the waste basket for good."""
        return {"purged": len(self._store.purge_trash(None))}

    @property
    def _store(self) -> Store:
        if self._services.store is None:
            raise HeadwayError("This dashboard was started without a store, so it keeps no runs.")
        return self._services.store
