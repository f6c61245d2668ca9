"""The command that draws the draft-vocabulary curve from an answers file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import app
from backend.data.answers import Answer, pack_answers


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))


def write_answers(path: Path, prompts: int = 200) -> Path:
    rng, answers = random.Random(0), []
    for number in range(prompts):
        tokens = [min(int(rng.paretovariate(0.6)), 900) for _ in range(30)]
        prompt = tuple(rng.randrange(900) for _ in range(4))
        category = "code" if number % 2 else "math"
        answers.append(Answer(f"q{number}", category, prompt, (*tokens, 999), 0.0, 0, "eos", False))
    pack_answers(answers, path)
    return path


def test_it_prints_a_curve_and_the_sizes_that_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_answers(tmp_path / "a.npz")
    options = ["vocab-curve", "--answers", str(path), "--held-out", "0.3"]
    assert app.main([*options, "--json", "--coverage", "0.9"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["vocab_size"] == 1000 and 30 < told["counted_answers"] < 90
    everything = [point for point in told["curve"] if point["domain"] == "all"]
    shares = [point["covered"] / point["tokens"] for point in everything]
    assert shares == sorted(shares) and shares[-1] == 1.0
    lengths = [[one["acceptance_length"] for one in point["ceilings"]] for point in everything]
    assert lengths[-1] == [2.0, 3.0, 5.0, 9.0] and lengths[0][3] < 9.0
    assert set(told["sizes_needed"]) == {"all", "code", "math"}
    assert app.main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "code" in lines[2] and "depth 8" in lines[2] and lines[-1].startswith("99 % of the tokens need Vd = ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--coverage", "1.5"], "--coverage"),
        (["--depths", "2,x"], "--depths"),
        (["--held-out", "0"], "--held-out"),
        (["--vocab-size", "10"], "more than 10"),
        (["--answers", "nowhere.npz"], "no file"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    path = write_answers(tmp_path / "a.npz", 8)
    assert app.main(["vocab-curve", "--answers", str(path), *options]) == 2
    told = capsys.readouterr().err.strip()
    assert words in told and "\n" not in told
