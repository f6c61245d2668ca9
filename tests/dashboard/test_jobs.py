"""Jobs as pages see them: started with a checked config, followed without a gap, downloaded; mistakes are sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from backend.errors import HeadwayError
from backend.jobs.kinds import JOB_KINDS
from backend.settings import Settings
from dashboard.access import AccessPolicy
from dashboard.job_follower import JobFollower
from dashboard.jobs import Jobs
from dashboard.presenters.jobs import ACTIONS, job_row, metrics_csv
from dashboard.services import Services
from storage import Store
from storage.errors import StoreError, UnavailableError
from storage.job_records import OPEN_JOB_STATUSES
from tests.ui.replay_engine import ReplayEngine

CONFIG = {"prompts": ["p.jsonl"], "out": "answers.jsonl"}
OTHER = str(Path("other.jsonl").absolute())


@pytest.fixture
def services(engine: ReplayEngine, store: Store, tmp_path: Path) -> Services:
    places = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    return Services(engine, AccessPolicy.for_bind(), store, places=places)


@pytest.fixture
def jobs(services: Services) -> Jobs:
    return Jobs(services)


def started(jobs: Jobs, store: Store, name: str = "answers") -> tuple[str, int]:
    """A job that somebody works on: its id and attempt."""
    job_id = jobs.start("distill", {**CONFIG, "out": f"{name}.jsonl"}, name=name)
    leased = store.lease_job("host:1:x", job_id=job_id)
    assert leased is not None
    return job_id, leased.attempt


def test_a_started_job_waits_with_its_whole_config(jobs: Jobs, store: Store) -> None:
    job = store.get_job(jobs.start("distill", CONFIG))
    assert job.status == "queued" and job.name
    # Whoever takes it up may work in another folder.
    assert job.config["prompts"] == [str(Path("p.jsonl").absolute())]
    assert JOB_KINDS["distill"].config.model_validate(job.config).model_dump(mode="json") == job.config


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        ("distill", {"bogus": 1}, "no setting named “bogus”"),
        ("distill", {"prompts": []}, "Prompts"),
        ("distill", {"batch": "many"}, "Batch has to be a valid integer"),
        ("knit", {}, "no kind of job named “knit”"),
    ],
)
def test_a_wrong_config_is_one_sentence_and_starts_nothing(
    jobs: Jobs, store: Store, kind: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(HeadwayError) as error:
        jobs.start(kind, {**CONFIG, **changes})
    assert sentence in str(error.value) and "\n" not in str(error.value)
    assert store.list_jobs() == []


def test_two_people_who_start_the_same_get_one_job(jobs: Jobs, store: Store) -> None:
    jobs.start("distill", CONFIG, name="first")
    with pytest.raises(StoreError, match="first"):
        jobs.start("distill", CONFIG, name="second")
    assert len(store.list_jobs()) == 1


def test_a_fork_remembers_its_parent_and_changes_only_what_was_said(jobs: Jobs, store: Store) -> None:
    parent = jobs.start("distill", CONFIG)
    child = store.get_job(jobs.fork(parent, {"out": OTHER, "limit": 3}))
    before = store.get_job(parent).config
    assert child.parent_id == parent and child.config == {**before, "out": OTHER, "limit": 3}


def test_every_status_has_its_actions_and_a_row_tells_what_is_needed(jobs: Jobs, store: Store) -> None:
    assert set(OPEN_JOB_STATUSES) < set(ACTIONS)
    job_id, attempt = started(jobs, store)
    store.heartbeat(job_id, attempt, {"done": 30, "total": 40, "unit": "answers", "note": "", "left_s": 12.5})
    row = job_row(store.get_job(job_id))
    assert row["progress"]["fraction"] == 0.75 and row["progress"]["left_s"] == 12.5
    assert row["actions"] == ["pause", "stop"] and json.dumps(row)


def kinds(news: list[tuple[str, Any]]) -> list[str]:
    return [kind for kind, _ in news]


def test_a_follower_gives_everything_once_and_resumes_anywhere(jobs: Jobs, store: Store) -> None:
    job_id, attempt = started(jobs, store)
    follower = JobFollower(jobs, job_id)
    assert kinds(follower.poll()) == ["job"] and follower.poll() == []
    store.add_metrics(job_id, attempt, [(step, {"loss": 1 / (step + 1)}) for step in range(5)])
    store.put_items(job_id, attempt, {"a": {"x": 1}})
    log = jobs.folder(job_id) / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\nhalf a li")
    news = dict(follower.poll())
    assert [row[1] for row in news["metrics"]["rows"]] == [0, 1, 2, 3, 4]
    assert news["items"]["items"][0]["key"] == "a" and news["log"]["text"] == "one\ntwo\n"
    place = follower.position
    log.write_text("one\ntwo\nhalf a line\n")
    store.add_metrics(job_id, attempt, [(5, {"loss": 0.1})])
    for again in (follower, JobFollower(jobs, job_id, place)):
        news = dict(again.poll())
        assert [row[1] for row in news["metrics"]["rows"]] == [5]
        assert news["log"] == {"text": "half a line\n", "restart": False, "end": len("one\ntwo\nhalf a line\n")}
        assert "items" not in news
    assert len(dict(JobFollower(jobs, job_id, "nonsense").poll())["metrics"]["rows"]) == 6
    store.end_job(job_id, attempt, "finished", result={"ok": 1})
    assert dict(follower.poll())["job"]["result"] == {"ok": 1}


def test_a_database_that_is_away_is_told_once_and_nothing_is_lost(
    jobs: Jobs, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, attempt = started(jobs, store)
    follower = JobFollower(jobs, job_id)
    store.add_metrics(job_id, attempt, [(0, {"loss": 1.0})])

    def away(*_: Any, **__: Any) -> Any:
        raise UnavailableError("The database can't be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "items", away)  # the metrics before it were read already
        assert kinds(follower.poll()) == ["job", "metrics", "trouble"]
        assert follower.poll() == []
    store.add_metrics(job_id, attempt, [(1, {"loss": 0.5})])
    assert [row[1] for row in dict(follower.poll())["metrics"]["rows"]] == [1]


def test_a_deleted_job_is_gone_for_its_followers(jobs: Jobs, store: Store) -> None:
    job_id, attempt = started(jobs, store)
    follower = JobFollower(jobs, job_id)
    follower.poll()
    store.end_job(job_id, attempt, "stopped")
    jobs.delete(job_id)
    assert kinds(follower.poll()) == ["gone"] and follower.poll() == []


def test_a_log_is_cut_at_lines_and_its_path_stays_inside(jobs: Jobs, store: Store) -> None:
    job_id, _ = started(jobs, store)
    assert jobs.log_tail(job_id) == ""
    folder = jobs.folder(job_id)
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text("".join(f"line {n} ü\n" for n in range(1000)))
    tail = jobs.log_tail(job_id, 100)
    assert tail.startswith("line ") and tail.endswith("line 999 ü\n") and len(tail.encode()) <= 100
    for wrong in ("../x", "a/b", "", "."):
        with pytest.raises(HeadwayError):
            jobs.folder(wrong)


def test_metrics_as_csv_have_a_column_for_every_name(jobs: Jobs, store: Store) -> None:
    job_id, attempt = started(jobs, store)
    store.add_metrics(job_id, attempt, [(2, {"loss": 0.5}), (1, {"loss": 1.0, "top 1": 0.25})])
    assert metrics_csv(store.metrics(job_id)) == "step,loss,top 1\n1,1.0,0.25\n2,0.5,\n"


def test_routes_list_act_and_download(
    dashboard: Callable[..., FastAPI], store: Store, services: Services, jobs: Jobs
) -> None:
    app = dashboard(AccessPolicy.for_bind(), store=store, places=services.places)
    client = TestClient(app, base_url="http://127.0.0.1:7860")
    job_id, attempt = started(jobs, store)
    waiting = [jobs.start("distill", {**CONFIG, "out": f"{n}.jsonl"}, name=str(n)) for n in range(2)]
    assert {row["id"] for row in client.get("/headway/jobs?status=queued").json()} == set(waiting)
    answer = client.post(f"/headway/jobs/{waiting[1]}/move", json={"before": waiting[0]})
    assert answer.status_code == 200, answer.text
    assert [job.id for job in jobs.list(statuses=["queued"], order="queue")] == waiting[::-1]
    assert client.post(f"/headway/jobs/{waiting[0]}/pause").json()["status"] == "paused"
    assert client.post(f"/headway/jobs/{waiting[0]}/resume", json={"front": True}).json()["status"] == "queued"
    assert client.post(f"/headway/jobs/{job_id}/stop").json()["requested"] == "stop"
    store.add_metrics(job_id, attempt, [(1, {"loss": 1.0})])
    assert client.get(f"/headway/jobs/{job_id}/metrics.csv").text == "step,loss\n1,1.0\n"
    assert client.get(f"/headway/jobs/{job_id}/metrics.json").json() == [{"step": 1, "loss": 1.0}]
    assert "attachment" in client.get(f"/headway/jobs/{job_id}/log").headers["content-disposition"]
    refused = [
        client.post(f"/headway/jobs/{job_id}/delete"),
        client.post(f"/headway/jobs/{job_id}/explode"),
        client.post(f"/headway/jobs/{job_id}/move", content=b"[1]"),
        client.get(f"/headway/jobs/{job_id}/metrics.xls"),
        client.get("/headway/jobs?status=bored"),
    ]
    assert [answer.status_code for answer in refused] == [400] * 5
    assert client.get("/headway/jobs/unknown").status_code == 404
    for answer in refused:
        assert len(answer.json()["error"]) > 10 and "\n" not in answer.json()["error"]
