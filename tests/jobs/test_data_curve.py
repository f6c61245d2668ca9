"""`data-curve` on evaluations and typed points: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import app
from backend.jobs.data_curve_command import runs_of
from backend.settings import Settings
from backend.targets.opening import open_target
from tests.formats.made import heads_for

POINTS = [f"{n}:{2.6 - 40 * n**-0.4:.4f}:0.004" for n in (20_000, 40_000, 80_000, 160_000)]


def called(*words: str) -> int:
    return app.main(["data-curve", *words])


def typed(points: list[str]) -> list[str]:
    return [word for one in points for word in ("--point", one)]


def test_points_give_an_answer_with_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*typed(POINTS), "--gain", "0.1", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    more = told["more_tokens"]
    assert 0 < more["low"] < more["median"] < (more["high"] or float("inf")) and told["more_answers"] is None
    assert told["with_twice_the_data"]["low"] > told["runs"][-1]["acceptance_length"] - 0.05
    assert called(*typed(POINTS), "--gain", "3") == 0
    said = capsys.readouterr().out
    assert "never more tokens (never to never)" in said and "100 % of the curves" in said


def test_an_evaluation_gives_a_run_for_each_trained_drafter(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "home", tmp_path / "cache")
    heads = heads_for(tmp_path / "heads", open_target("tiny-llama", settings, "cpu"))
    meta = json.loads((heads / "headway.json").read_text())
    meta["numbers"]["training_positions"] = 5000
    (heads / "headway.json").write_text(json.dumps(meta))
    row: dict[str, Any] = {"contender": "a", "set": "x", "category": None, "temperature": 0.0, "batch": 1,
                           "acceptance_length": 1.5, "acceptance_interval": {"low": 1.402, "high": 1.598}}  # fmt: skip
    table = {
        "setup": {"contenders": {"plain": {"spec": "none"}, "a": {"spec": str(heads)}, "n": {"spec": "ngram"}}},
        "rows": [row, row | {"temperature": 1.0, "acceptance_length": 9.0}, row | {"category": "math"},
                 row | {"contender": "n"}],
    }  # fmt: skip
    (found,) = runs_of("t", table)
    assert (found.tokens, found.acceptance_length) == (5000.0, 1.5) and found.error == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (typed(POINTS[:2]), "needs 3 runs"),
        (["--point", "many"], "TOKENS:LENGTH:ERROR"),
        ([*typed(POINTS), "--gain", "0"], "must be above 0"),
        (["--evaluation", "nowhere.json"], "no table of an evaluation"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(*words) == 2
    said = capsys.readouterr().err
    assert problem in said and len(said.strip().splitlines()) == 1
