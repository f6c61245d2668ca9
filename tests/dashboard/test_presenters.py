"""Demo prompts and lines of the run list from whatever lies in files and store."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from backend.engine.protocol import DecodeRequest, Event
from dashboard.presenters.prompts import demo_prompts
from dashboard.presenters.runs import answer_of, request_from


def test_demos_come_from_the_file_and_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "demo.jsonl"
    good = {"question_id": 1, "category": "short_story", "turns": ["Tell me <b>one</b> ${x}"]}
    file.write_text("\n".join(["{", json.dumps(good), json.dumps({"turns": []}), "[]", json.dumps({"turns": [" "]})]))
    assert demo_prompts(file) == [{"label": "Short story", "prompt": "Tell me <b>one</b> ${x}"}]


def test_without_a_file_there_are_demos_all_the_same(tmp_path: Path) -> None:
    assert demo_prompts(None) == demo_prompts(tmp_path / "none.jsonl")
    assert all(demo["prompt"] for demo in demo_prompts(None))


def test_requests_of_another_age_are_none() -> None:
    request = DecodeRequest(raw_prompt="x")
    assert request_from(request.model_dump(mode="json")) == request
    assert request_from({"raw_prompt": "x", "warp": 9}) is None and request_from(None) is None


def test_the_answer_is_the_results_text() -> None:
    events = [Event(1, "step", {}), Event(2, "result", {"text": "done"})]
    assert answer_of(events) == "done" and answer_of(events[:1]) is None
    assert answer_of([Event(1, "failed", {"error": "no"})]) is None


def test_the_run_list_is_plain_json() -> None:
    from datetime import UTC, datetime

    from dashboard.presenters.runs import run_row

    run = SimpleNamespace(
        id="r1",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        status="finished",
        prompt_start="a\n  b " + "c" * 300,
        drafter_name="ngram",
        version_label="SmolLM2",
        num_tokens=5,
        num_steps=2,
        acceptance_length=2.0,
        error=None,
        traces_pruned=True,
    )
    row = json.loads(json.dumps(run_row(run)))
    assert row["prompt"].startswith("a b c") and len(row["prompt"]) == 160 and row["replayable"] is False
