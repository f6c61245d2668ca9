"""A calibration on a tiny target: stopping and going on, its file, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import app
from backend.errors import Cancelled, HeadwayError
from backend.jobs import calibrate_job
from backend.jobs.calibrate_config import CalibrateJobConfig
from backend.jobs.going_on import SETUP
from backend.tuning.calibration import calibration_from

Items = dict[str, dict[str, Any]]


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    rows = [{"question_id": f"q{i}", "category": "xy"[i % 2], "turns": [f"say {i} " * (i + 1)]} for i in range(5)]
    path = tmp_path / "held.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def config_of(held_out: str, **changes: Any) -> CalibrateJobConfig:
    values: dict[str, Any] = {
        "target": "tiny-llama", "drafter": "ngram", "prompts": (held_out,), "max_new_tokens": 12, "batch": 2,
        "depth": 3, "temperatures": (0.0, 1.0),
    }  # fmt: skip
    return CalibrateJobConfig(**values | changes)


def test_every_answer_is_an_item_and_all_of_them_a_file(prompts: str, context: Any) -> None:
    made = context()
    done = calibrate_job.run(config_of(prompts), made)
    assert len(made.items()) == 1 + 5 * 2 and done["prompts"] == 5
    data = json.loads(Path(done["file"]).read_text())
    read = calibration_from(data, "x")
    assert read.positions == done["positions"] > 60 and read.temperatures == [0.0, 1.0]
    assert read.categories == ["x", "y"] and data["tables"]["positions"] == read.positions
    assert data["conditions"]["drafter"]["family"] == "ngram" and len(data["conditions"]["prompts"]["held.jsonl"]) == 64
    first = data["tables"]["conditional"][0][0]
    assert 0 <= first["hits"] <= first["tried"] <= read.positions


def test_stopped_anywhere_it_goes_on_and_finds_the_same(prompts: str, context: Any) -> None:
    config, whole = config_of(prompts, temperatures=(1.0,)), context()
    calibrate_job.run(config, whole)
    asked: list[int] = []
    stopped = context(stopped=lambda: asked.append(1) or len(asked) > 15)
    with pytest.raises(Cancelled, match="is kept"):
        calibrate_job.run(config, stopped)
    found = stopped.items()
    assert 1 <= len(found) < 6
    again = context(found)
    calibrate_job.run(config, again)
    found, expected = again.items(), whole.items()
    assert {key: found[key] for key in found if key != SETUP} == {
        key: expected[key] for key in expected if key != SETUP
    }


def test_it_does_not_go_on_with_another_target(prompts: str, context: Any) -> None:
    first = context()
    calibrate_job.run(config_of(prompts, temperatures=(0.0,)), first)
    items = first.items()
    items[SETUP]["conditions"]["version"] = {}
    with pytest.raises(HeadwayError, match="start anew"):
        calibrate_job.run(config_of(prompts, temperatures=(0.0,)), context(items))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"drafter": "none"}, "drafts nothing that could be calibrated"),
        ({"drafter": "nobody"}, "Unknown drafter"),
        ({"prompts": ("missing.jsonl",)}, "missing"),
        ({"max_new_tokens": 2000}, "None of the 5 prompts leaves room"),
    ],
)
def test_mistakes_are_one_sentence(prompts: str, context: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HeadwayError, match=sentence):
        calibrate_job.run(config_of(prompts, **changes), context())


def test_the_commands_work_hand_in_hand(
    prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    tiny = ["--target", "tiny-llama", "--drafter", "ngram"]
    kept = str(tmp_path / "made" / "cal.json")
    words = ["calibrate", *tiny, "--prompts", prompts, "--limit", "3", "--max-new-tokens", "14", "--depth", "2"]
    assert app.main([*words, "--out", kept, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == "" and found["file"] == kept and found["tables"]["prompts"] == 3 and len(found["hits"]) == 2
    cost = str(tmp_path / "made" / "cost.json")
    timing = ["cost", *tiny, "--seconds", "0.1", "--batches", "1,2", "--contexts", "8", "--max-rows", "4"]
    assert app.main([*timing, "--out", cost, "--no-store", "--json"]) == 0
    curve = json.loads(capsys.readouterr().out)
    assert curve["conditions"]["drafter"]["family"] == "ngram" and len(curve["passes"]) >= 4
    assert app.main(["tune-tree", "--calibration", kept, "--cost", cost, "--json"]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert tuned["expected_tokens_per_s"] > 0 and tuned["plain_tokens_per_s"] > 0
    words = ["tune-tree", "--calibration", kept, "--nodes", "2", "--measure", prompts, "--limit", "2"]
    assert app.main([*words, "--max-new-tokens", "8", "--no-store", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]["rows"]
    assert {row["contender"].partition(" ")[0] for row in measured} == {"plain", "ngram"}
