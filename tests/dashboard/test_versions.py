"""What the Versions page says: entries, labels, notes, a new version, checks and differences, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.errors import HeadwayError
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import Services
from dashboard.versions import Versions
from storage import Store
from tests.storage.samples import IDENTITY, register
from tests.ui.replay_engine import ReplayEngine

FOUND = {
    "identity": IDENTITY.parts() | {"name": "m"}, "source": "/m", "name": "m", "model_type": "llama",
    "num_parameters": 5,
}  # fmt: skip


@pytest.fixture
def asked() -> list[Mapping[str, Any]]:
    return []


@pytest.fixture
def versions(store: Store, engine: ReplayEngine, tmp_path: Path, asked: list[Mapping[str, Any]]) -> Versions:
    def ask(request: Mapping[str, Any]) -> Any:
        asked.append(request)
        return {"describe": FOUND, "diff": {"parts": ["weights"]}, "check": []}[str(request["action"])]

    services = Services(engine, AccessPolicy.for_bind(), store, places=Settings(tmp_path, tmp_path / "cache"))
    return Versions(services, ask)


def test_a_version_is_listed_with_parent_labels_and_what_its_drafters_were_made_of(
    store: Store, versions: Versions
) -> None:
    base = register(store)
    child = store.register_version(
        IDENTITY.from_parts(IDENTITY.parts() | {"weights_id": "w2"}),
        label="calls", source="/calls", model_type="llama", num_parameters=3, parent_id=base.id,
    )  # fmt: skip
    store.register_drafter(
        family="medusa", name="heads", path="/heads", weights_hash="h" * 64, version_id=child.id,
        lineage={"answers": "a.npz", "command": "python app.py train", "packages": {"torch": "2.13"}, "drafter": {}},
    )  # fmt: skip
    shown = {one["label"]: one for one in versions.label(child.id, " serving ", True)["versions"]}
    assert shown["calls"]["labels"] == ["serving"] and shown["calls"]["parent"] == {"id": base.id, "label": "base"}
    (drafter,) = shown["calls"]["drafters"]
    assert [fact["name"] for fact in drafter["lineage"]] == ["learned from", "command", "packages"]
    moved = {one["label"]: one["labels"] for one in versions.label(base.id, "serving", True)["versions"]}
    assert moved == {"base": ["serving"], "calls": []}  # a label stands on one version at a time
    assert {one["notes"] for one in versions.note(base.id, "kept")["versions"]} == {"kept", ""}
    for label in ("", "a, b", "x" * 41):
        with pytest.raises(HeadwayError, match="A label is a word or a few"):
            versions.label(base.id, label, True)


def test_a_target_is_registered_once(store: Store, versions: Versions, asked: list[Mapping[str, Any]]) -> None:
    first = versions.register(" ./m ")
    assert not first["known"] and versions.register("./m") == {"id": first["id"], "known": True}
    assert asked[0]["source"] == "./m" and store.get_version(first["id"]).source == "/m"
    with pytest.raises(HeadwayError, match="Give the folder"):
        versions.register("  ")


def test_files_are_checked_by_what_was_registered(
    store: Store, versions: Versions, asked: list[Mapping[str, Any]]
) -> None:
    version = register(store)
    store.register_drafter(family="medusa", name="heads", path="/heads", weights_hash="h1", version_id=version.id)
    assert versions.check() == []
    (told,) = asked[-1]["versions"]
    assert told["identity"] == IDENTITY.parts() and told["drafters"][0]["weights_hash"] == "h1"
    assert versions.use_found(version.id, "/elsewhere")["versions"][0]["source"] == "/m"
    other = register(store, weights_id="w9")
    with pytest.raises(HeadwayError, match="holds another version"):
        versions.use_found(other.id, "/elsewhere")
    versions.diff(version.id, other.id)
    assert (asked[-1]["first"]["source"], asked[-1]["second"]["source"]) == ("/m", "./model")
    assert asked[-1]["second"]["identity"]["weights_id"] == "w9"


def test_the_routes_start_tasks_and_answer_with_sentences(
    store: Store, dashboard: Callable[..., FastAPI], tmp_path: Path
) -> None:
    version = register(store)
    places = Settings(tmp_path, tmp_path / "cache")
    client = TestClient(
        dashboard(AccessPolicy.for_bind(), store=store, places=places), base_url="http://127.0.0.1:7860"
    )
    assert client.get("/headway/versions").json()["versions"][0]["id"] == version.id
    assert client.post("/headway/versions/label", json={"id": version.id, "label": "serving"}).status_code == 200
    assert client.post("/headway/versions/label", json={"id": "nope", "label": "serving"}).status_code == 404
    assert client.post("/headway/versions/burn", json={}).status_code == 400
    assert client.get("/headway/versions/tasks/nope").status_code == 404
    task = client.post("/headway/versions/register", json={"source": ""}).json()["task"]
    for _ in range(200):
        found = client.get(f"/headway/versions/tasks/{task}").json()
        if found["state"] != "running":
            break
    assert found["state"] == "failed" and found["error"].startswith("Give the folder")
