"""`tune-tree` as a script sees it: one JSON object, one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tqdm import tqdm

import app
from backend.engine.conditions import device_name
from backend.trees import parse_any_tree
from backend.tuning.calibration import Calibration
from tests.tuning.made_up import calibration, cost


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = app.main(["tune-tree", *words])
    out, err = capsys.readouterr()
    return code, out, err


def written(path: Path, data: Any) -> str:
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return str(path)


def test_the_chain_and_the_product_of_the_textbook(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hits = written(home / "h.json", {"hits": [[0.6], [0.4], [0.3]]})
    code, out, err = run(capsys, "--hits", hits, "--nodes", "3", "--json")
    found = json.loads(out)
    assert code == 0 and err == "" and found["paths"] == [[0], [0, 0], [0, 0, 0]] and found["num_nodes"] == 3
    assert found["expected_acceptance_length"] == pytest.approx(1.912)
    assert found["expected_tokens_per_s"] is None
    wide = written(home / "w.json", {"hits": [[0.4, 0.25, 0.15], [0.3, 0.25], [0.3]]})
    found = json.loads(run(capsys, "--hits", wide, "--nodes", "15", "--json")[1])
    assert found["num_nodes"] == 15 and f"{found['expected_acceptance_length']:.2f}" == "2.37"


def test_a_cost_curve_by_hand_decides_how_many_nodes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hits = written(home / "h.json", {"hits": [[0.6], [0.4], [0.3]]})
    costs = written(home / "c.json", {"rows_ms": {"1": 10, "2": 10, "3": 10, "4": 20}, "draft_ms": 1})
    found = json.loads(run(capsys, "--hits", hits, "--nodes", "3", "--cost", costs, "--json")[1])
    assert found["num_nodes"] == 2 and found["expected_tokens_per_s"] == pytest.approx(1000 * 1.84 / 11)
    code, out, _ = run(capsys, "--hits", hits, "--cost", costs)
    assert code == 0 and out.startswith("2 nodes, depth 2: [[0], [0, 0]]") and "167.3 tokens/s" in out
    found = json.loads(run(capsys, "--hits", hits, "--cost", costs, "--against", "chain-3", "--json")[1])["against"]
    assert found["chain-3"]["expected_acceptance_length"] == pytest.approx(1.912)
    assert found["chain-3"]["expected_tokens_per_s"] == pytest.approx(1000 * 1.912 / 21)


GOOD = {"hits": [[0.5, 0.2], [0.4]]}


@pytest.mark.parametrize(
    ("hits", "words", "sentence"),
    [
        ({"hits": []}, (), "holds no hit rates"),
        ({"hits": [[], []]}, (), "holds no hit rates"),
        ({"hits": [[0, 0], [0]]}, (), "are 0, so every tree is as good as none"),
        ({"hits": [[1.5]]}, (), "Rank 1 of depth 1 in .* is 1.5; a hit rate is a probability"),
        ({"hits": [[0.5], [-0.1]]}, (), "Rank 1 of depth 2"),
        ('{"hits": [[NaN]]}', (), "is nan; a hit rate"),
        ({"hits": [[0.6, 0.5]]}, (), "add up to 1.1; one rank can be right"),
        ({"hits": "0.5"}, (), "not what it should be"),
        ({"hits": [[0.5], "x"]}, (), "not what it should be"),
        ({"hit": [[0.5]]}, (), "not what it should be"),
        ([0.5], (), "not what it should be"),
        ("{", (), "not valid JSON"),
        (GOOD, ("--nodes", "0"), "--nodes: .* greater than or equal to 1 .got 0"),
        (GOOD, ("--nodes", "513"), "--nodes: .* less than or equal to 512 .got 513"),
        (GOOD, ("--batch", "0"), "--batch: .* greater than or equal to 1"),
        (GOOD, ("--context", "0"), "--context: .* greater than or equal to 1"),
        (GOOD, ("--calibration", "c.json"), "not both"),
        (GOOD, ("--measure", "x.jsonl"), "Measuring needs a drafter"),
        (GOOD, ("--against", "bush"), "Unknown tree 'bush'"),
        (GOOD, ("--cost", "missing.json"), "no such file"),
        ({"hits": [[0.5]] * 2, "conditional": {"a": [0.1]}}, (), "conditional path 'a'"),
        ({"hits": [[0.001] * 65]}, (), "65 ranks; at most 64"),
    ],
)
def test_mistakes_are_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], hits: Any, words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(capsys, "--hits", written(home / "h.json", hits), *words, "--json")
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1
    import re

    assert re.search(sentence, err), err


@pytest.mark.parametrize(
    "costs",
    [
        {"rows_ms": {}},
        {"rows_ms": {"0": 1}},
        {"rows_ms": {"1": -5}},
        {"rows_ms": {"1": 5}, "more": 1},
        {"passes": []},
        [],
    ],
)
def test_a_cost_curve_that_is_none_is_refused(home: Path, capsys: pytest.CaptureFixture[str], costs: Any) -> None:
    words = ("--hits", written(home / "h.json", GOOD), "--cost", written(home / "c.json", costs))
    code, out, err = run(capsys, *words)
    assert code == 2 and out == "" and "c.json is not what it should be" in err and len(err.splitlines()) == 1


def here(**changes: Any) -> dict[str, Any]:
    """Conditions of this machine."""
    about = calibration(2).conditions
    return {
        "device": device_name(torch.device("cpu")), "threads": torch.get_num_threads(), "dtype": "float32",
        "version": about["version"], "drafter": about["drafter"], **changes,
    }  # fmt: skip


def test_a_cost_curve_of_another_device_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hits = written(home / "h.json", GOOD)
    for conditions in (here(device="cuda:0 (Big One)"), here(device="cpu (Other)"), here(threads=77)):
        costs = written(home / "c.json", cost(conditions=conditions).to_dict())
        code, _, err = run(capsys, "--hits", hits, "--cost", costs)
        assert code == 2 and "measure one here with `cost`" in err and len(err.splitlines()) == 1
    costs = written(home / "c.json", cost(conditions=here()).to_dict())
    assert run(capsys, "--hits", hits, "--cost", costs)[0] == 0


def test_a_calibration_with_a_cost_curve_gives_everything(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = written(home / "cal.json", calibration().to_dict() | {"tables": {}})
    costs = written(home / "c.json", cost(0.8, here()).to_dict())
    code, out, err = run(capsys, "--calibration", made, "--cost", costs, "--nodes", "12", "--against", "3x3", "--json")
    found = json.loads(out)
    assert found["against"]["3x3"]["num_nodes"] == 12 and found["against"]["3x3"]["acceptance_interval"] is not None
    assert code == 0 and err == "" and found["num_nodes"] <= 12
    assert found["acceptance_interval"]["low"] < found["expected_acceptance_length"]
    assert found["medusa_choices"] == found["paths"] and found["confidence_stops"]["expected_tokens_per_s"] > 0
    for asked in (found["confidence_stops"]["tree"], found["chain_by_batch"]):
        assert parse_any_tree(json.dumps(asked)).to_json() == asked
    assert len(found["sizes"]) == 13 and found["batches"][0]["batch"] == 1
    assert found["dynamic"]["num_nodes"] <= 12 and found["dynamic"]["expected_tokens_per_s"] > 0
    assert found["sglang"]["speculative_num_draft_tokens"] == found["num_nodes"] + 1
    code, out, _ = run(capsys, "--calibration", made, "--cost", costs, "--category", "x", "--sampled")
    assert code == 0 and "Stopping by confidence needs chosen children" in out
    other = written(home / "o.json", cost(0.8, here(version={"weights_id": "w"})).to_dict())
    code, _, err = run(capsys, "--calibration", made, "--cost", other)
    assert code == 2 and "another target version" in err
    family = written(home / "f.json", cost(0.8, here(drafter={"name": "n", "family": "ngram"})).to_dict())
    assert "which differ in what drafting costs" in run(capsys, "--calibration", made, "--cost", family)[2]
    two = {"name": "n", "family": "medusa", "config": {"num_heads": 2}}
    four = two | {"config": {"num_heads": 4}}
    data = calibration().to_dict() | {"tables": {}}
    ours = written(home / "2.json", data | {"conditions": data["conditions"] | {"drafter": two}})
    theirs = written(home / "4.json", cost(0.8, here(drafter=four)).to_dict())
    assert "which differ in what drafting costs" in run(capsys, "--calibration", ours, "--cost", theirs)[2]


def test_an_empty_calibration_and_a_job_that_is_none_are_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = calibration(2)
    empty = Calibration(made.shape, made.ranks, made.parallel, (), made.conditions)
    code, _, err = run(capsys, "--calibration", written(home / "e.json", empty.to_dict()))
    assert code == 2 and "is empty" in err
    code, _, err = run(capsys, "--calibration", "nobody")
    assert code == 2 and "neither a file nor a job" in err
    code, _, err = run(capsys, "--nodes", "3")
    assert code == 2 and "Give --calibration" in err and len(err.splitlines()) == 1


def test_a_search_says_how_far_it_is_and_the_bar_is_quiet_under_json(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = written(home / "cal.json", calibration().to_dict() | {"tables": {}})
    costs = written(home / "c.json", cost(0.8, here()).to_dict())
    bars: list[dict[str, Any]] = []
    shown: list[tuple[float, str]] = []

    class Bar(tqdm):  # type: ignore[type-arg]
        def __init__(self, **kept: Any) -> None:
            bars.append(kept)
            super().__init__(**kept | {"disable": True})

        def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
            shown.append((self.n, s))

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0

    monkeypatch.setattr("backend.jobs.context.tqdm", Bar)
    words = ("--calibration", made, "--cost", costs, "--nodes", "12")
    assert run(capsys, *words, "--json")[0] == 0 and bars == []
    assert run(capsys, *words)[0] == 0
    assert [(bar["unit"], bar["delay"]) for bar in bars] == [("searches", 2)]
    done, whats = [one for one, _ in shown], {what for _, what in shown}
    assert done == sorted(done) and done[-1] <= bars[0]["total"] and len(done) > 20
    assert {"trees of every size", "trees that grow", "stops by confidence", "8 at once"} <= whats
