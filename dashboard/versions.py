"""What the Versions page asks: the registered versions with their drafters, labels and notes; a new one; whether files
are still those that were registered; what differs between two.

Joins the store's answers with a short process that reads checkpoints. Knows no Gradio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.errors import HeadwayError
from backend.jobs.short_process import ask
from backend.jobs.version_words import checked_label, to_check, to_compare
from backend.jobs.watch_config import WatchJobConfig
from backend.jobs.watch_job import seen
from dashboard.answers import answer, answer_sent
from dashboard.presenters.versions import version_list
from dashboard.presenters.watching import watch_view
from dashboard.services import Services
from dashboard.tasks import Tasks
from storage import Store, VersionIdentity

PATIENCE_S = 1800.0  #: reading a large checkpoint for the first time
MOST_NOTES = 20_000
Ask = Callable[[Mapping[str, Any]], Any]


def _ask(request: Mapping[str, Any]) -> Any:
    return ask("backend.jobs.version_files", request, PATIENCE_S, "Reading the files")["found"]


class Versions:
    """`ask`: who reads checkpoints; a test hands in its own. Raises HeadwayError or StoreError for what a person can
    mend."""

    def __init__(self, services: Services, ask: Ask = _ask) -> None:
        self._services, self._ask = services, ask

    def view(self) -> dict[str, Any]:
        """{versions, watch}: the newest first, see presenters/versions.py; what the newest watch has seen, or None."""
        store = self._store
        jobs = store.list_jobs(kinds=["evaluate"], limit=500)
        versions = version_list(store.list_versions(), store.list_drafters(), jobs)
        return {"versions": versions, "watch": self._watch()}

    def _watch(self) -> dict[str, Any] | None:
        for job in self._store.list_jobs(kinds=["watch"], limit=1):
            items = {one.key: one.data for one in self._store.items(job.id)}
            found = seen(items, WatchJobConfig.model_validate(job.config))
            return watch_view(job, found)
        return None

    def note(self, version_id: str, text: str) -> dict[str, Any]:
        self._store.annotate_version(version_id, notes=text[:MOST_NOTES])
        return self.view()

    def label(self, version_id: str, label: str, on: bool) -> dict[str, Any]:
        """A label stands on one version at a time."""
        self._store.label_version(version_id, checked_label(label), on)
        return self.view()

    def register(self, source: str) -> dict[str, Any]:
        """{id, known}: the version at a folder, GGUF file or hub id, and whether it was registered before."""
        if not source.strip():
            raise HeadwayError("Give the folder, the GGUF file or the hub id of a target.")
        found = self._ask({**self._places(), "action": "describe", "source": source.strip()})
        before = {one.id for one in self._store.list_versions()}
        made = self._store.register_version(
            VersionIdentity.from_parts(found["identity"]),
            label=found["name"],
            source=found["source"],
            model_type=found["model_type"],
            num_parameters=found["num_parameters"],
        )
        return {"id": made.id, "known": made.id in before}

    def check(self) -> list[dict[str, Any]]:
        """Whether the files of every version and drafter are still those that were registered."""
        store = self._store
        versions = [to_check(one, store.list_drafters(one.id)) for one in store.list_versions()]
        found: list[dict[str, Any]] = self._ask({**self._places(), "action": "check", "versions": versions})
        return found

    def use_found(self, version_id: str, source: str) -> dict[str, Any]:
        """A version whose files have moved is looked for at `source` from now on, if it really is there."""
        known = self._store.get_version(version_id)
        found = self._ask({**self._places(), "action": "describe", "source": source})
        if VersionIdentity.from_parts(found["identity"]) != known.identity:
            raise HeadwayError(f"{source} holds another version, so nothing was changed.")
        self._store.annotate_version(version_id, source=found["source"])
        return self.view()

    def diff(self, first: str, second: str) -> dict[str, Any]:
        """What is different in the second; see backend.targets.changes."""
        store = self._store
        told = {"first": to_compare(store.get_version(first)), "second": to_compare(store.get_version(second))}
        found: dict[str, Any] = self._ask({**self._places(), "action": "diff", **told})
        return found

    def _places(self) -> dict[str, str]:
        places = self._services.places
        if places is None:
            raise HeadwayError("This dashboard was started without a home folder, so it can't read targets.")
        return {"home": str(places.home), "cache": str(places.cache)}

    @property
    def _store(self) -> Store:
        if self._services.store is None:
            raise HeadwayError("This dashboard was started without a store, so it knows no versions.")
        return self._services.store


def version_routes(versions: Versions, tasks: Tasks) -> list[Route]:
    """Reading checkpoints may take minutes, so register, check and diff are tasks: {task}, then its state."""

    async def shown(request: Request) -> Response:
        return await answer(versions.view)

    async def act(request: Request) -> Response:
        name = request.path_params["action"]
        return await answer_sent(request, lambda values: _act(versions, tasks, name, values))

    async def task(request: Request) -> Response:
        return await answer(lambda: tasks.get(request.path_params["task_id"]).to_json())

    base = "/headway/versions"
    return [
        Route(base, shown),
        Route(base + "/tasks/{task_id}", task),
        Route(base + "/{action}", act, methods=["POST"]),
    ]


def _act(versions: Versions, tasks: Tasks, name: str, values: dict[str, Any]) -> dict[str, Any]:
    def text(key: str) -> str:
        return str(values.get(key) or "")

    if name == "note":
        return versions.note(text("id"), text("text"))
    if name in ("label", "unlabel"):
        return versions.label(text("id"), text("label"), name == "label")
    work: dict[str, Callable[[], Any]] = {
        "register": lambda: versions.register(text("source")),
        "check": versions.check,
        "found": lambda: versions.use_found(text("id"), text("source")),
        "diff": lambda: versions.diff(text("first"), text("second")),
    }
    if name not in work:
        raise HeadwayError(f"The registry knows no “{name[:40]}”.")
    return {"task": tasks.start(lambda progress: work[name]())}
