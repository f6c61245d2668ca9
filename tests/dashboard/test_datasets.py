"""The Data page's questions over HTTP: files come in by upload or path, are counted, split, compared, distilled."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.data.answers import Answer, AnswerWriter
from backend.errors import HeadwayError
from backend.settings import Settings
from dashboard import data_routes as routes_module
from dashboard.access import AccessPolicy
from dashboard.data_routes import data_routes
from dashboard.datasets import Datasets, typed_path
from dashboard.jobs import Jobs
from dashboard.services import Services
from dashboard.tasks import Tasks
from dashboard.uploads import Upload
from storage import Store
from tests.ui.idle_engine import IdleEngine

ROWS = [{"turns": [f"question number {n} about the weather in the old town"], "category": "c"} for n in range(40)]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    places = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    with Store.open(":memory:") as store:
        yield Services(IdleEngine(), AccessPolicy.for_bind(), store, places=places)


@pytest.fixture
def client(services: Services) -> TestClient:
    return TestClient(Starlette(routes=data_routes(Datasets(services, Jobs(services)), Tasks())))


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def done(client: TestClient, answer: Any) -> dict[str, Any]:
    """What the task gave; {"error": …} where it failed or was refused at once."""
    found = answer.json()
    give_up = time.monotonic() + 20
    while "task" in found:
        now = client.get(f"/headway/data/tasks/{found['task']}").json()
        assert time.monotonic() < give_up
        if now["state"] == "done":
            return now["result"]
        if now["state"] != "running":
            return {"error": now["error"]}
        time.sleep(0.01)
    return found


def bring(client: TestClient, path: Path | str, **more: Any) -> dict[str, Any]:
    return done(client, client.post("/headway/data/bring", json={"path": str(path), **more}))


def test_a_file_by_path_is_counted_shown_and_kept_once(client: TestClient, tmp_path: Path) -> None:
    path = write(tmp_path / "my rows.jsonl", [*ROWS, "broken", {"turns": []}])
    made = bring(client, f' "{path}" ', licence="MIT")
    assert made["known"] is False and bring(client, path)["known"] is True
    listed = client.get("/headway/data/sets").json()["sets"]
    assert [(one["name"], one["rows"], one["broken"], one["licence"]) for one in listed] == [("my rows", 40, 2, "MIT")]
    assert listed[0]["lineage"] == "brought as a file" and listed[0]["missing"] is False
    shown = client.get(f"/headway/data/sets/{made['id']}").json()
    assert shown["broken_rows"][0] == [41, "is no valid JSON (Expecting value at character 1)"]
    assert len(shown["preview"]) == 20 and shown["more"] and shown["categories"] == [["c", 40]]
    assert shown["lengths"] == [{"from": 32, "below": 64, "count": 40}] and sum(shown["places"]) == 40
    assert shown["trouble"] is None and shown["facts"] == ["written as turns"]


def test_an_upload_is_kept_under_a_safe_name(client: TestClient, services: Services) -> None:
    body = "\n".join(map(json.dumps, [*ROWS, {}])).encode()
    made = done(client, client.post("/headway/data/upload?name=../../up%20lo/äd.jsonl&licence=own", content=body))
    shown = client.get(f"/headway/data/sets/{made['id']}").json()
    assert services.places is not None
    folder = services.places.home / "datasets"
    kept = Path(shown["path"])
    assert kept.parent == folder and kept.name.startswith("äd-") and kept.read_bytes() == body
    assert (shown["rows"], shown["broken"], shown["licence"]) == (40, 1, "own")
    assert [file.name for file in folder.iterdir()] == [kept.name]


def test_uploads_that_are_too_large_or_empty_leave_nothing(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "empty" in client.post("/headway/data/upload?name=a.jsonl", content=b"").json()["error"]
    monkeypatch.setattr(routes_module, "MAX_UPLOAD_BYTES", 10)
    answer = client.post("/headway/data/upload?name=a.jsonl", content=b"x" * 11)
    assert answer.status_code == 400 and "at most 200 MB; type the file's path" in answer.json()["error"]
    assert services.places is not None
    assert list((services.places.home / "datasets").iterdir()) == []
    with pytest.raises(HeadwayError, match="at most"), Upload(services.places.home / "datasets", "a", 10) as upload:
        upload.write(b"x" * 6)
        upload.write(b"x" * 6)  # without a length announced
    assert list((services.places.home / "datasets").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("", "Type the path"), ("/no/such/file", "is not there"), ("/", "is a folder"), ("a\0b", "b” is not there"),
     ("x" * 5000, "is no path")],
)  # fmt: skip
def test_paths_that_are_none_are_one_sentence(client: TestClient, path: str, sentence: str) -> None:
    error = bring(client, path)["error"]
    assert sentence in error and len(error) < 300
    with pytest.raises(HeadwayError, match=sentence):
        typed_path(path)


def test_a_file_without_a_usable_row_is_not_kept(client: TestClient, tmp_path: Path) -> None:
    assert "No usable prompt" in bring(client, write(tmp_path / "a", ["x"]))["error"]
    (tmp_path / "b").write_bytes(b"PAR1\0\0")
    assert "a Parquet file" in bring(client, tmp_path / "b")["error"]
    assert client.get("/headway/data/sets").json()["sets"] == []


def test_names_and_licences_change_and_files_that_change_are_told(client: TestClient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ROWS)
    base = f"/headway/data/sets/{bring(client, path)['id']}"
    assert client.post(f"{base}/annotate", json={"licence": "CC0", "name": "mine"}).json()["name"] == "mine"
    assert "needs a name" in client.post(f"{base}/annotate", json={"name": " "}).json()["error"]
    write(path, ROWS[:3])
    assert "has changed since" in client.get(base).json()["trouble"]
    path.unlink()
    assert "Cannot read" in client.get(base).json()["trouble"]
    assert client.get("/headway/data/sets").json()["sets"][0]["missing"] is True
    assert client.post(f"{base}/forget", json={}).json() == {}
    assert client.get(base).status_code == 404
    assert "can't be asked to “fly”" in client.post(f"{base}/fly", json={}).json()["error"]


def test_a_split_makes_two_data_sets_with_lineage(client: TestClient, tmp_path: Path) -> None:
    made = bring(client, write(tmp_path / "a.jsonl", ROWS), licence="MIT")
    base = f"/headway/data/sets/{made['id']}"
    places = client.get(base).json()["places"]
    ids = done(client, client.post(f"{base}/split", json={"fraction": 0.25}))["ids"]
    sides = [client.get(f"/headway/data/sets/{one}").json() for one in ids]
    assert [side["rows"] for side in sides] == [40 - sum(places[:250]), sum(places[:250])]
    assert [side["name"] for side in sides] == ["a (training)", "a (held-out)"]
    assert sides[1]["lineage"] == "held-out side of a (25 % held out)" and sides[1]["licence"] == "MIT"
    assert "has to be a number" in client.post(f"{base}/split", json={"fraction": "x"}).json()["error"]
    assert "none would be held out" in done(client, client.post(f"{base}/split", json={"fraction": 0.001}))["error"]


def test_leaks_are_found_by_set_and_by_path(client: TestClient, tmp_path: Path) -> None:
    mine = bring(client, write(tmp_path / "a.jsonl", ROWS))["id"]
    text = "Question number 7, about the weather in the OLD town?"
    other = write(tmp_path / "e.jsonl", [{"turns": ["unlike"]}, {"turns": [text], "id": "x"}])
    evaluation = bring(client, write(tmp_path / "f.jsonl", [{"turns": ["nothing alike"]}]), name="judges")["id"]
    url = f"/headway/data/sets/{mine}/leaks"
    clean = done(client, client.post(url, json={"others": [evaluation], "paths": ""}))
    assert clean["num_hits"] == 0 and clean["compared"] == ["judges"] and clean["num_prompts"] == 40
    found = done(client, client.post(url, json={"others": [evaluation], "paths": f"{other}\n\n"}))
    assert found["num_others"] == 3 and {"row-8"} <= {hit["id"] for hit in found["hits"]}
    assert all(hit["other"] == "x" and hit["file"] == "e.jsonl" for hit in found["hits"])
    assert "Choose at least one" in done(client, client.post(url, json={}))["error"]
    assert "is the file that is checked" in done(client, client.post(url, json={"others": [mine]}))["error"]
    assert "is not there" in done(client, client.post(url, json={"paths": "/no/file"}))["error"]


def test_answers_are_shown_with_who_wrote_them(client: TestClient, tmp_path: Path) -> None:
    with AnswerWriter(tmp_path / "a.jsonl") as writer:
        for n in range(25):
            writer.write(Answer(f"q{n}", "code", (1, n), (2, 3), 0.5, 0, "length" if n == 1 else "eos", n == 1))
    note = {"version": {"weights_id": "ab" * 32}, "answering": {"seed": 0, "max_new_tokens": 9}}
    (tmp_path / "a.jsonl.job.json").write_text(json.dumps(note))
    made = bring(client, tmp_path / "a.jsonl")
    shown = client.get(f"/headway/data/sets/{made['id']}").json()
    assert shown["kind"] == "answers" and shown["length_unit"] == "tokens" and shown["more"]
    assert shown["lineage"] == "unknown prompts → answers by version abababababab at T = 0.5"
    assert shown["facts"] == ["1 cut at the length limit", "50 answer tokens"]
    assert shown["preview"][1]["ended"] == "length" and shown["preview"][0]["answer_tokens"] == 2
    refused = done(client, client.post(f"/headway/data/sets/{made['id']}/split", json={"fraction": 0.1}))
    assert "holds answers, which are token ids" in refused["error"]


def test_the_distillation_form_starts_a_job_with_the_sets_own_file(
    client: TestClient, services: Services, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", ROWS)
    made = bring(client, path)["id"]
    form = client.get("/headway/data/distill").json()
    prompts = next(field for field in form["fields"] if field["field"] == "prompts")
    assert prompts["choices"] == [["a (40)", made]] and all(field["help"] for field in form["fields"])
    typed = {"target": "tiny-llama", "prompts": made, "temperatures": "0, 0.7", "max_new_tokens": "16", "turns": ""}
    ask = {"action": "start", "typed": typed}
    problems = client.post("/headway/data/distill", json={**ask, "typed": {**typed, "batch": "0"}}).json()["problems"]
    assert set(problems) == {"batch"} and services.store is not None and services.store.list_jobs() == []
    unknown = client.post("/headway/data/distill", json={**ask, "typed": {**typed, "prompts": "/etc/passwd"}}).json()
    assert "Choose a prompt set" in unknown["problems"]["prompts"] and services.store.list_jobs() == []
    job = services.store.get_job(client.post("/headway/data/distill", json=ask).json()["job"])
    assert job.kind == "distill" and job.status == "queued" and job.config["prompts"] == [str(path)]
    assert job.config["temperatures"] == [0.0, 0.7] and job.config["max_new_tokens"] == 16
    command = client.post("/headway/data/distill", json={**ask, "action": "command"}).json()["text"]
    assert command.startswith("python app.py distill") and str(path) in command
    assert "temperatures:" in client.post("/headway/data/distill", json={**ask, "action": "yaml"}).json()["text"]


def test_a_mask_needs_a_target(client: TestClient, tmp_path: Path) -> None:
    made = bring(client, write(tmp_path / "a.jsonl", ROWS))["id"]
    answer = client.get(f"/headway/data/sets/{made}/mask?target=&row=1")
    assert "Choose a target first" in answer.json()["error"]


def test_without_store_or_home_it_says_so(tmp_path: Path) -> None:
    services = Services(IdleEngine(), AccessPolicy.for_bind())
    client = TestClient(Starlette(routes=data_routes(Datasets(services, Jobs(services)), Tasks())))
    assert client.get("/headway/data/sets").json()["sets"] == []
    assert "without a store" in bring(client, write(tmp_path / "a", ROWS))["error"]
    assert "without a home folder" in client.post("/headway/data/upload?name=a", content=b"x").json()["error"]
