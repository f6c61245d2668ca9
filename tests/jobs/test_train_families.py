"""Families through the one trainer, by its command: chosen, filled by a preset, trained, and drafted with."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import app
from backend.drafters.checkpoint import read_meta
from backend.drafters.eagle.config import EagleSettings
from backend.drafters.eagle3.config import Eagle3Settings
from backend.drafters.families import FAMILIES, PRESETS
from backend.errors import HeadwayError
from backend.jobs.as_text import add_config_options, as_command, as_yaml, config_from_file, config_of
from backend.jobs.configs import TrainJobConfig
from storage import Store
from tests.jobs.test_train_job import made_up_answers

SHORT = (
    "train", "--target", "tiny-llama", "--draft-vocab", "64", "--batch-tokens", "160", "--steps", "6",
    "--decode-prompts", "2", "--decode-tokens", "8", "--report-every", "2", "--json",
)  # fmt: skip
PAIR = ("--test-time-steps", "2", "--draft-depth", "2")
GROWN = '{"dynamic": {"depth": 2, "top_k": 2, "num_nodes": 4}}'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    code = app.main(list(words))
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def decoded(capsys: pytest.CaptureFixture[str], drafter: str, *words: str) -> dict[str, Any]:
    code, told, err = run(
        capsys, "decode", "--target", "tiny-llama", "--drafter", drafter, "--prompt", "hello", "--max-new-tokens", "20",
        "--temperature", "0", "--rule", "greedy", "--json", *words,
    )  # fmt: skip
    assert code == 0, err
    return told


def test_eagle3_is_trained_and_drafts_with_static_and_grown_trees(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, done, err = run(capsys, *SHORT, *PAIR, "--family", "eagle3", "--answers", str(answers), "--tree", GROWN)
    assert (code, err) == (0, "") and Path(done["out"]).name == "eagle3-tiny-llama"
    meta = read_meta(Path(done["out"]))
    assert meta.family == "eagle3" and meta.tree == [] and meta.dynamic == {"depth": 2, "top_k": 2, "num_nodes": 4}
    assert meta.numbers["decoded_acceptance_length"] >= 1 and len(meta.numbers["hit_rates"]) == 2
    with Store.open(home / "home" / "runs.db") as store:
        [job] = store.list_jobs()
        assert job.status == "finished" and store.get_drafter(str(job.drafter_id)).weights_hash == meta.weights_sha256
    plain = decoded(capsys, "none")["tokens"]
    for words in ((), ("--tree", "chain-3"), ("--tree", "2x2"), ("--tree", GROWN), ("--max-depth", "1")):
        assert decoded(capsys, done["out"], *words)["tokens"] == plain, words


def test_hydra_plus_plus_is_trained_from_whole_texts_by_its_preset(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    asked = ("--family", "hydra", "--preset", "small", "--num-heads", "2", "--answers", str(answers))
    code, done, err = run(capsys, *SHORT, *asked, "--tree", GROWN)
    assert (code, err) == (0, "")
    meta = read_meta(Path(done["out"]))
    assert (
        meta.family == "hydra"
        and meta.config["prefix"]["hidden_size"] == 64
        and meta.lineage["drafter"]["loss"] == "soft"
    )
    plain = decoded(capsys, "none")["tokens"]
    for words in ((), ("--tree", "chain-2"), ("--tree", "2x2"), ("--max-depth", "1")):
        assert decoded(capsys, done["out"], *words)["tokens"] == plain, words
    code, _, err = run(capsys, *SHORT, *asked, "--head-arch", "mlp", "--start-from", done["out"], "--name", "other")
    assert code == 2 and "don't fit these settings (prefix." in err


def test_the_same_features_serve_the_next_training_of_the_same_layers(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    common = (*SHORT, *PAIR, "--answers", str(answers), "--tree", "chain")
    assert run(capsys, *common, "--family", "eagle")[0] == 0
    timed = run(capsys, *common[:-2], "--family", "eagle", "--seed", "1", "--tree-nodes", "3")[1]
    assert 1 <= len(timed["tree"]) <= 3 and timed["numbers"]["expected_acceptance_length"] >= 1
    assert run(capsys, *common, "--family", "eagle3", "--reads", "0,2")[0] == 0
    folders = [path for path in (home / "cache" / "features").iterdir() if path.is_dir()]
    assert len(folders) == 4  # training and held-out, of each family
    code, done, err = run(
        capsys, *common, "--family", "eagle", "--start-from", str(home / "home/drafters/eagle-tiny-llama")
    )
    assert (code, err) == (0, "") and read_meta(Path(done["out"])).tree == [[0], [0, 0]]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--family", "eagle3", "--reads", "1,9"), "Layer 9 does not exist"),
        (("--family", "eagle3", "--reads", "2,1"), "from low to high"),
        (("--family", "eagle3", "--fc-norm", "--norm-before-fc"), "exclude each other"),
        (("--family", "eagle3", "--num-heads", "3"), "no setting of the family eagle3"),
        (("--family", "medusa", "--test-time-steps", "3"), "no setting of the family medusa"),
        (("--family", "eagle", "--preset", "blockwise"), "no preset 'blockwise'"),
        (("--family", "eagle", "--tree", "oak"), "Unknown tree"),
        (("--family", "hydra", "--tree", "chain-9"), "deep"),
        (("--family", "hydra", "--tree", '{"dynamic": {"depth": 9, "top_k": 2, "num_nodes": 9}}'), "deep"),
    ],
)
def test_mistakes_are_one_sentence(
    words: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, _, err = run(capsys, *SHORT, "--answers", str(answers), *words)
    assert code == 2 and part in err and len(err.strip().splitlines()) == 1


def test_another_familys_weights_are_refused(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    done = run(capsys, *SHORT, "--answers", str(answers), "--num-heads", "2", "--tree", "chain")[1]
    code, _, err = run(capsys, *SHORT, "--family", "eagle", "--answers", str(answers), "--start-from", done["out"])
    assert code == 2 and "medusa drafter and eagle is to be trained" in err


def parsed(*words: str) -> TrainJobConfig:
    parser = argparse.ArgumentParser()
    add_config_options(parser, "train")
    config = config_of("train", parser.parse_args(["--answers", "a.npz", *words]))
    assert isinstance(config, TrainJobConfig)
    return config


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("preset", [None, "paper", "small"])
def test_every_family_and_preset_survives_as_command_and_as_file(
    family: str, preset: str | None, tmp_path: Path
) -> None:
    config = parsed("--family", family, *(("--preset", preset) if preset else ()))
    assert config.drafter.family == family and config.preset is None
    words = shlex.split(as_command("train", config))
    assert parsed(*words[3:]) == config
    file = tmp_path / "job.yaml"
    file.write_text(as_yaml("train", config), encoding="utf-8")
    assert config_from_file("train", file) == config


def test_what_is_given_wins_over_the_preset(tmp_path: Path) -> None:
    config = parsed("--family", "eagle3", "--preset", "paper", "--learning-rate", "0.001", "--test-time-steps", "4")
    assert isinstance(config.drafter, Eagle3Settings)
    assert (config.drafter.test_time_steps, config.drafter.draft_vocab) == (4, 32000)
    assert (config.training.learning_rate, config.training.epochs) == (0.001, 40)
    assert parsed(*shlex.split(as_command("train", config))[3:]) == config  # 0.001 is the usual rate, and still given
    file = tmp_path / "job.yaml"
    file.write_text("answers: a.npz\npreset: paper\ndrafter: {family: eagle, noise: 0.0}\n")
    found = config_from_file("train", file)
    assert isinstance(found, TrainJobConfig) and isinstance(found.drafter, EagleSettings)
    assert found.drafter.noise == 0 and found.training.gradient_value_clip == 0.5
    again = TrainJobConfig(answers="a", drafter=EagleSettings(noise=0.3), preset="paper")
    assert isinstance(again.drafter, EagleSettings) and (again.drafter.noise, again.drafter.draft_vocab) == (0.3, 0)


def test_blockwise_parallel_decoding_is_a_preset_of_medusa() -> None:
    config = parsed("--preset", "blockwise")
    assert config.drafter.family == "medusa" and config.tree == "chain"


@pytest.mark.parametrize("family", FAMILIES)
def test_presets_name_settings_that_are_there(family: str) -> None:
    assert {"paper", "small"} <= PRESETS[family].keys()
    for preset in PRESETS[family].values():
        TrainJobConfig.model_validate({"answers": "a", **preset, "drafter": {**preset["drafter"], "family": family}})


def test_an_unknown_family_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("answers: a\ndrafter: {family: condor}\n")
    with pytest.raises(HeadwayError, match="--family: there is no 'condor'; use medusa, hydra, eagle, eagle3"):
        config_from_file("train", file)
