"""Where a training's features come from, by its command: captures that others made, and what a plan says of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import app
from backend.data.answers import pack_answers, unpack_answers
from backend.drafters.checkpoint import read_meta
from backend.drafters.families import DEFAULT_FAMILY
from backend.jobs.configs import TrainJobConfig
from backend.settings import Settings
from backend.training.captures import MANIFEST
from backend.training.known_targets import known_target
from backend.training.plan_facts import answer_facts, target_facts, with_captures
from backend.training.plan_given import Speed
from backend.training.planner import plan
from backend.training.split import split_held_out
from tests.jobs.test_train_families import PAIR, SHORT, home, run
from tests.jobs.test_train_job import made_up_answers

__all__ = ["home"]
SPEED = Speed(read=1e9, learn=1e9)


def feature_folders(place: Path) -> list[Path]:
    return [path.parent for path in place.glob(f"*/{MANIFEST}")]


def planned_bytes(settings: Settings, answers: Path, **drafter: object) -> tuple[int, set[str]]:
    """Bytes of features that a plan foretells, and what its phases are called."""
    config = TrainJobConfig.model_validate({
        "target": "tiny-llama", "answers": str(answers), "drafter": {"family": DEFAULT_FAMILY, **drafter},
        "training": {"batch_tokens": 64},
    })  # fmt: skip
    target = target_facts("tiny-llama")
    facts = answer_facts(answers, config.held_out, target.max_context)
    known = known_target(settings.cache, "tiny-llama", None, None)
    facts = with_captures(facts, config, target.num_layers, settings.features, known)
    found = plan(config, target, facts, None, SPEED)
    return found.bytes_features, {phase.name for phase in found.phases}


def test_one_capture_serves_all_families(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers, settings = made_up_answers(home / "answers.npz"), Settings(home / "home", home / "cache")
    assert planned_bytes(settings, answers)[0] > 0
    common = ("--answers", str(answers), "--tree", "chain", "--no-store")
    assert run(capsys, *SHORT, *PAIR, *common, "--family", "eagle3")[0] == 0
    assert len(feature_folders(settings.features)) == 2, "training and held-out"
    others = {
        "eagle": PAIR, "mtp": PAIR, "peagle": ("--draft-depth", "2"), "medusa": ("--num-heads", "2"),
        "hydra": ("--num-heads", "2", "--loss", "lk"),
    }  # fmt: skip
    for family, words in others.items():
        code, done, err = run(capsys, *SHORT, *words, *common, "--family", family)
        assert (code, err) == (0, ""), family
        assert read_meta(Path(done["out"])).numbers["training_positions"] > 0
    assert len(feature_folders(settings.features)) == 2, "nobody captured again"
    for drafter in ({}, {"family": "eagle"}, {"family": "eagle3"}, {"family": "eagle3", "reads": (2,)}):
        foretold, phases = planned_bytes(settings, answers, **drafter)
        assert foretold == 0 and "read the answers" not in phases and "learn" in phases
    for drafter in ({"family": "eagle3", "reads": (0, 2)}, {"family": "peagle", "reads": (3,)}):
        foretold, phases = planned_bytes(settings, answers, **drafter)
        assert foretold > 0 and "read the answers" in phases
    assert run(capsys, *SHORT, *PAIR, *common, "--family", "eagle3", "--reads", "0,2")[0] == 0
    assert len(feature_folders(settings.features)) == 4


def test_a_capture_serves_any_part_of_its_answers(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers, settings = made_up_answers(home / "all.npz"), Settings(home / "home", home / "cache")
    trained, held_out = split_held_out(unpack_answers(answers), 0.2)
    pack_answers([*held_out, *trained[2:8]], home / "part.npz")
    common = ("--tree", "chain", "--held-out", "0.2", "--no-store")
    code, all_of_them, err = run(capsys, *SHORT, *common, *PAIR, "--family", "eagle3", "--answers", str(answers))
    assert (code, err) == (0, "") and len(feature_folders(settings.features)) == 2
    for family, words in {"eagle3": PAIR, "medusa": ("--num-heads", "2")}.items():
        asked = (*SHORT, *common, *words, "--family", family)
        code, part, err = run(capsys, *asked, "--answers", str(home / "part.npz"))
        assert (code, err) == (0, ""), family
        learned = [read_meta(Path(done["out"])).numbers["training_positions"] for done in (all_of_them, part)]
        assert learned == [30 * len(trained), 30 * 6]
    assert len(feature_folders(settings.features)) == 2, "nobody captured again"
    facts = answer_facts(home / "part.npz", 0.2, 512)
    known = known_target(settings.cache, "tiny-llama", None, None)
    config = TrainJobConfig.model_validate({
        "target": "tiny-llama", "answers": str(home / "part.npz"), "drafter": {"family": "eagle3"},
    })  # fmt: skip
    facts = with_captures(facts, config, target_facts("tiny-llama").num_layers, settings.features, known)
    assert facts.captured and facts.held_out_captured


def test_it_is_said_whose_capture_is_used(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    words = [word for word in SHORT if word != "--json"]
    common = (*words, "--answers", str(answers), "--tree", "chain", "--work", str(home / "work"), "--no-store")
    assert run(capsys, *common, *PAIR, "--family", "eagle", "--json")[0] == 0
    assert {path.name for path in feature_folders(home / "work")} == {"text-features", "held-out"}
    medusa = (*common, "--family", "medusa", "--num-heads", "2", "--out", str(home / "heads"))
    shutil.rmtree(home / "work" / "run")  # another family's run
    assert app.main(list(medusa)) == 0
    said = capsys.readouterr().err
    assert "The training features were captured before: text-features holds all that is read." in said
    assert "The held-out features were captured before" not in said, "that is its own place"
    assert not (home / "work" / "features").exists()
