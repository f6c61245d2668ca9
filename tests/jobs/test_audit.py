"""An audit on a tiny target as a job: stopping and going on, the certificate, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import app
from backend.errors import Cancelled, HeadwayError
from backend.jobs import audit_job
from backend.jobs.audit_config import AuditJobConfig
from backend.jobs.audit_page import as_page
from backend.jobs.going_on import SETUP

Items = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def a_small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_job, "WORLD_SAMPLES", 4_000)  # tests/analysis/test_audit.py looks at what it finds


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    rows = [{"question_id": f"q{i}", "category": "x", "turns": [f"say {i} " * (i + 1)]} for i in range(4)]
    path = tmp_path / "held.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def config_of(held_out: str, **changes: Any) -> AuditJobConfig:
    values: dict[str, Any] = {
        "target": "tiny-llama", "drafter": "draft:tiny-llama", "prompts": (held_out,), "tree": "2x1",
        "max_new_tokens": 10, "batch": 2, "greedy_answers": 3, "total_variation": 0.3,
    }  # fmt: skip
    return AuditJobConfig(**values | changes)


def test_an_audit_ends_with_a_certificate(prompts: str, context: Any) -> None:
    done = audit_job.run(config_of(prompts), context())
    certificate = json.loads(Path(done["file"]).read_text())
    findings, conditions = certificate["findings"], certificate["conditions"]
    assert done["verdict"] == findings["verdict"] == "exact", findings["sentence"]
    assert findings["greedy"]["answers"] == 3 and findings["greedy"]["errors"] == 0
    assert findings["sampling"]["positions"] >= findings["sampling"]["needed"] > 50
    assert findings["sampling"]["branches"]["accepted"] > 500  # the same tree in the world of tables
    assert conditions["drafter"]["family"] == "draft_model" and len(conditions["prompts"]["held.jsonl"]) == 64
    page = Path(done["page"]).read_text()
    assert "No deviation found" in page and "<script" not in page and conditions["packages"]["torch"] in page


def test_stopped_anywhere_it_goes_on_and_finds_the_same(prompts: str, context: Any) -> None:
    config, whole = config_of(prompts), context()
    audit_job.run(config, whole)
    asked: list[int] = []
    stopped = context(stopped=lambda: asked.append(1) or len(asked) > 20)
    with pytest.raises(Cancelled, match="is kept"):
        audit_job.run(config, stopped)
    found, expected = stopped.items(), whole.items()
    assert 1 < len(found) < len(expected)
    again = context(found)
    audit_job.run(config, again)
    assert {k: v for k, v in again.items().items() if k != SETUP} == {k: v for k, v in expected.items() if k != SETUP}
    items = again.items()
    items[SETUP]["conditions"]["version"] = {}
    with pytest.raises(HeadwayError, match="start anew"):
        audit_job.run(config, context(items))


def test_time_that_is_up_is_no_verdict(prompts: str, context: Any) -> None:
    done = audit_job.run(config_of(prompts, minutes=1e-6, total_variation=0.01), context())
    assert done["verdict"] == "too few" and "more are needed" in done["sentence"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"drafter": "none"}, "nothing to audit"),
        ({"rule": "greedy"}, "rejection or typical"),
        ({"rule": "typical", "sampled": True}, "leave drawn siblings off"),
        ({"prompts": ("missing.jsonl",)}, "missing"),
        ({"max_new_tokens": 2000}, "None of the 4 prompts leaves room"),
    ],
)
def test_mistakes_are_one_sentence(prompts: str, context: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        audit_job.run(config_of(prompts, **changes), context())


def test_the_page_shows_every_verdict(prompts: str, context: Any) -> None:
    done = audit_job.run(config_of(prompts, rule="typical"), context())
    certificate = json.loads(Path(done["file"]).read_text())
    assert "Drift of the approximate rule" in as_page(certificate)
    certificate["findings"] |= {"verdict": "deviates", "sentence": "<b>not</b> exact"}
    assert "&lt;b&gt;not&lt;/b&gt; exact" in as_page(certificate)


def test_the_command_prints_the_certificate(
    prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    kept = tmp_path / "made" / "proof.json"
    words = ["audit", "--target", "tiny-llama", "--drafter", "draft:tiny-llama", "--tree", "2x1", "--prompts", prompts]
    words += ["--max-new-tokens", "10", "--greedy-answers", "2", "--total-variation", "0.3", "--out", str(kept)]
    assert app.main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["file"] == str(kept) and printed["findings"] == json.loads(kept.read_text())["findings"]
    assert kept.with_suffix(".html").read_text().startswith("<!doctype html>")
    assert app.main([*words, "--no-store"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("No deviation was found") and "sampling, all tokens" in shown
