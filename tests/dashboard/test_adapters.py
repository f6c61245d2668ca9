"""The Adapters page without a browser: what its button starts, what is wrong beside a field, what is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backend.errors import HeadwayError
from backend.jobs.adapters_report import report_text
from dashboard.adapting import mix, view, written
from dashboard.jobs import Jobs
from dashboard.pages.adapters_handlers import AdaptersHandlers
from dashboard.presenters.adapters import adapters_name, adapters_view
from storage import Store
from tests.dashboard.compared_adapters import FOUND, add_comparison, config, report_of


@pytest.fixture
def handlers(jobs: Jobs) -> AdaptersHandlers:
    return AdaptersHandlers(jobs._services, jobs)


def pressed(handlers: AdaptersHandlers, action: str, typed: dict[str, Any]) -> tuple[Any, Any, Any]:
    return handlers.act(SimpleNamespace(action=action, typed=typed))  # type: ignore[arg-type]


def test_the_form_starts_a_comparison_and_says_it_as_command(handlers: AdaptersHandlers, store: Store) -> None:
    form, shown = handlers.load(SimpleNamespace(query_params={"traffic": "a=2"}))  # type: ignore[arg-type]
    assert shown["job"] is None and form["typed"]["traffic"] == "a=2"
    fields = {field["field"]: field for field in form["fields"]}
    assert {fields[name]["group"] for name in ("adapter", "shared", "min_gain")} == {"what", "drafters", "measured"}
    assert "ngram" not in [value for _, value in fields["shared"]["choices"]]
    assert form["typed"]["shared"] == ""  # one is trained
    typed = form["typed"] | {"adapter": "a=x\nb=y", "prompts": "a=1.jsonl\nb=2.jsonl", "out": "/made/here"}
    text = pressed(handlers, "command", typed)[2]["text"]
    assert "adapters --adapter a=x --adapter b=y --prompts a=" in text
    assert text.endswith("--traffic a=2 --out /made/here")
    _, shown, _ = pressed(handlers, "start", typed)
    (job,) = store.list_jobs(kinds=["adapters"])
    assert shown["job"] == job.id and job.name == adapters_name(job.config) == "here: a, b"
    wrong, *_ = pressed(handlers, "start", typed | {"adapter": "a=x"})
    assert "Two or more adapters" in wrong["problems"][""]
    wrong, *_ = pressed(handlers, "start", typed | {"out": ""})
    assert wrong["problems"]["out"]


def test_what_is_found_is_told_of_each_adapter(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    job = add_comparison(store, tmp_path / "out")
    told = view(jobs, job.id)
    assert [one["name"] for one in told["adapters"]] == list(FOUND)
    assert [one["verdict"] for one in told["adapters"]] == ["earns", "does not", "too few"]
    first = told["adapters"][0]
    assert first["cost"] == "3.2 min of training, 41 MB of memory" and first["rows"][1]["fastest"]
    assert first["rows"][1]["over_shared"]["way"] == "up" and first["rows"][0]["over_shared"]["text"] == ""
    assert first["rows"][-1]["plain"] and first["rows"][-1]["depths"] == []
    assert 0 <= first["rows"][1]["depths"][0]["interval"][0] <= first["rows"][1]["depths"][0]["value"] <= 1
    gains = told["gains"]
    assert gains["low"] < 0 < gains["border"] == 0.05 < gains["high"]
    assert gains["rows"][0]["low"] < gains["rows"][0]["middle"] < gains["rows"][0]["high"]
    assert "2 threads" in told["conditions"] and told["notes"] == []
    assert json.loads(bytes(written(jobs, job.id).body)) == report_of(config(tmp_path / "out"))


def test_another_mix_is_computed_from_what_was_measured(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    job = add_comparison(store, tmp_path / "out")
    before = view(jobs, job.id)["mix"]
    assert before["shares"] == pytest.approx({name: (3 - place) / 6 for place, name in enumerate(FOUND)})
    again = mix(jobs, job.id, {"shares": {name: 3 - place for place, name in enumerate(FOUND)}})
    assert again["sentence"] == before["sentence"]
    assert [row["speed"] for row in again["rows"]] == [row["speed"] for row in before["rows"]]
    after = mix(jobs, job.id, {"shares": dict.fromkeys(FOUND, 0) | {"sql": 1}})
    earned = {row["strategy"]: row for row in after["rows"]}
    assert earned["earned"]["own"] == [] and earned["earned"]["speed"] == earned["shared"]["speed"]
    assert sum(row["fastest"] for row in before["rows"]) >= 1 and max(row["share"] for row in after["rows"]) == 1
    for values, sentence in (
        ({}, "a number for each adapter"),
        ({"shares": {"sql": "much"}}, "has to be a number"),
        ({"shares": {"sql": 0}}, "adds up to nothing"),
        ({"shares": {"other": 1}}, "none of the adapters"),
    ):
        with pytest.raises(HeadwayError, match=sentence):
            mix(jobs, job.id, values)


def test_before_the_end_nothing_is_said(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    job = add_comparison(store, tmp_path / "out", over=False)
    told = view(jobs, job.id)
    assert told["mix"] is None and told["adapters"] == [] and "eagle3, preset small" in told["conditions"]
    with pytest.raises(HeadwayError, match="not over"):
        written(jobs, job.id)
    other = store.create_job(kind="cost", name="c", config={})
    with pytest.raises(HeadwayError, match="no comparison of adapters"):
        view(jobs, other.id)


def test_a_report_that_is_gone_or_damaged_is_one_sentence(jobs: Jobs, store: Store, tmp_path: Path) -> None:
    job = add_comparison(store, tmp_path / "out")
    place = tmp_path / "out" / "report.json"
    place.write_text("{")
    with pytest.raises(HeadwayError, match="is damaged"):
        view(jobs, job.id)
    place.unlink()
    with pytest.raises(HeadwayError, match="can't be read"):
        view(jobs, job.id)


def test_without_a_mixture_the_page_says_why(tmp_path: Path) -> None:
    report = report_of(config(tmp_path)) | {"no_mixture": "sql changes the embedding."}
    told = adapters_view(SimpleNamespace(config=report["config"]), report)
    assert told["mix"]["rows"] and report_text(report).rstrip().endswith("- sql changes the embedding.")


def test_the_report_for_people_has_every_sentence(tmp_path: Path) -> None:
    report = report_of(config(tmp_path))
    text = report_text(report)
    for one in report["adapters"]:
        assert f"- {one['sentence']}\n" in text and f"## {one['name']}: {one['prompts']} held-out prompts" in text
    assert f"- {report['sentence']}\n" in text and "| own heads for every adapter | " in text
    assert "customer-support-2026-11 50 %, sql 33.3 %, legal 16.7 % of the tokens" in text
