"""Requests that are posted: with the right token they reach the watch, and what is none is told and counted."""

from __future__ import annotations

import json
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.jobs.context import ConsoleContext
from backend.jobs.watch_config import WatchJobConfig
from backend.jobs.watch_job import run
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.services import Services
from dashboard.watching import MOST_BYTES, watch_routes
from tests.ui.replay_engine import ReplayEngine

LINE = json.dumps({"version": "v1", "drafter": "heads", "tokens": 30, "steps": 20})


def client(places: Settings | None) -> TestClient:
    services = Services(ReplayEngine(steps_per_s=None), AccessPolicy.for_bind(), places=places)
    return TestClient(Starlette(routes=watch_routes(services)))


def test_posted_requests_reach_the_watch(tmp_path: Path) -> None:
    places = Settings(tmp_path / "home", tmp_path / "cache")
    asked = client(places)
    assert asked.post("/headway/watch", content=LINE).status_code == 401
    place = places.home / "watch" / "token"
    assert place.stat().st_mode & 0o077 == 0
    head = {"Authorization": f"Bearer {place.read_text().strip()}"}
    assert asked.post("/headway/watch", content=LINE, headers={"Authorization": "Bearer é".encode()}).status_code == 401
    answer = asked.post("/headway/watch", content=f"{LINE}\n\nno json\n[1]\n{LINE}", headers=head)
    assert answer.json() == {"accepted": 2, "rejected": {"no JSON": 1, "it is no JSON object": 1}}
    assert asked.post("/headway/watch", content=b"x" * (MOST_BYTES + 1), headers=head).status_code == 413
    told = asked.get("/headway/watch").json()
    assert told["accepted"] == 2 and told["rejected"] == {"wrong token": 2, "no JSON": 1, "it is no JSON object": 1}
    done = run(WatchJobConfig(), ConsoleContext(places, tmp_path, quiet=True))
    assert done["requests"] == 2 and not done["rejected"] and told["file"] == str(places.home / "watch/requests.jsonl")


def test_without_a_home_folder_there_is_no_such_place() -> None:
    assert client(None).post("/headway/watch", content=LINE).status_code == 404
