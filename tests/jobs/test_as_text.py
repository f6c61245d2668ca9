"""A job as command, as file and back: nothing lost, mistakes in one sentence, the command line wins over the file."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

import app
from backend.drafters.medusa.config import MedusaSettings
from backend.errors import HeadwayError
from backend.jobs.as_text import add_config_options, as_command, as_yaml, config_from_file, config_of
from backend.jobs.configs import DistillJobConfig, TrainJobConfig
from backend.jobs.kinds import JOB_KINDS
from backend.jobs.options import leaves
from backend.training.config import TrainConfig

CONFIGS: dict[str, BaseModel] = {
    "distill": DistillJobConfig(
        target="org/model",
        prompts=("a b.jsonl", "it's.jsonl"),
        temperatures=(0.0, 0.7),
        system="-dash\nand a line",
        turns=2,
        trust_remote_code=True,
    ),
    "train": TrainJobConfig(
        answers="a.npz",
        drafter=MedusaSettings(num_heads=2, shared_output=True, draft_vocab=0, compute="bfloat16"),
        training=TrainConfig(epochs=0.5, learning_rate=3e-4, steps=7, keep="last"),
        start_from="1abc",
        half=True,
    ),
}


def parsed(kind: str, words: list[str]) -> BaseModel:
    parser = argparse.ArgumentParser()
    add_config_options(parser, kind)
    return config_of(kind, parser.parse_args(words))


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_job_survives_as_command_and_as_file(kind: str, tmp_path: Path) -> None:
    config = CONFIGS[kind]
    words = shlex.split(as_command(kind, config))
    assert words[:3] == ["python", "app.py", kind]
    assert parsed(kind, words[3:]) == config
    file = tmp_path / "job.yaml"
    file.write_text(as_yaml(kind, config), encoding="utf-8")
    assert config_from_file(kind, file) == config
    assert parsed(kind, ["--config", str(file)]) == config


@pytest.mark.parametrize("kind", ["distill", "train", "evaluate"])
def test_every_setting_has_an_option_of_its_own_and_a_line_of_help(kind: str) -> None:
    found = leaves(JOB_KINDS[kind].config)
    names = [leaf.name for leaf in found]
    assert len(set(names)) == len(names)
    assert all(leaf.help != leaf.name and "\n" not in leaf.help for leaf in found)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("answers: a.npz\nhalf: true\ntraining: {epochs: 3, seed: 5}\ndrafter: {num_heads: 3}\n")
    config = parsed("train", ["--epochs", "1", "--config", str(file), "--no-half", "--decay", "0.5"])
    assert isinstance(config, TrainJobConfig) and not config.half
    assert (config.training.epochs, config.training.seed) == (1, 5)
    assert (config.drafter.num_heads, config.drafter.decay) == (3, 0.5)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("answers: a\ntraining: {epoch: 3}\n", "'training.epoch' for train; did you mean epochs?"),
        ("answers: a\nnonsense: 3\n", "'nonsense'"),
        ("training: {epochs: 3}\n", "--answers is missing"),
        ("answers: a\ntraining: {epochs: -1}\n", "--epochs: input should be greater than 0 (got -1)"),
        ("answers: a\ndrafter: {family: hydra7}\n", "--family"),
        ("- a\n- b\n", "holds no settings"),
        ("answers: [\n", "not valid YAML in line"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence_that_names_it(text: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(HeadwayError) as told:
        config_from_file("train", file)
    assert part in str(told.value) and "\n" not in str(told.value)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = app.main(list(words))
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_decode_takes_a_file_too(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    file = home / "decode.yaml"
    file.write_text("target: tiny-llama\ndrafter: ngram\nprompts: nowhere.jsonl\nmax-new-tokens: 9\ntree: chain-2\n")
    words = ("decode", "--config", str(file), "--json")
    code, out, _ = run(capsys, *words, "--prompt", "hi", "--max-new-tokens", "4")
    assert code == 0 and len(json.loads(out)["tokens"]) == 4
    assert "nowhere.jsonl" in run(capsys, *words)[2]
    for text, part in (("tempratur: 1\n", "temperature"), ("batch: two\n", "batch"), ("rule: greediest\n", "rule")):
        file.write_text(f"target: tiny-llama\nprompt: hi\n{text}")
        code, out, err = run(capsys, *words)
        assert code == 2 and out == "" and part in err and len(err.strip().splitlines()) == 1


def test_the_command_jobs_tells_of_a_recorded_job(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    prompts = home / "p.jsonl"
    prompts.write_text('{"question_id": "a", "turns": ["Say one."]}\n')
    distill = ("distill", "--target", "tiny-llama", "--prompts", str(prompts), "--max-new-tokens", "4", "--json")
    assert run(capsys, *distill, "--no-store")[0] == 0
    assert "No jobs yet" in run(capsys, "jobs")[1]
    code, out, _ = run(capsys, *distill)
    made = json.loads(out)
    assert code == 0 and Path(made["out"]).is_file() and made["dataset_id"]
    [job] = [json.loads(line) for line in run(capsys, "jobs", "--json")[1].splitlines()]
    assert (job["status"], job["kind"], job["dataset_id"]) == ("finished", "distill", made["dataset_id"])
    assert json.loads(run(capsys, "jobs", "show", job["id"])[1])["result"]["answers"] == 2
    code, _, err = run(capsys, "jobs", "stop", job["id"])
    assert code == 2 and "nothing to stop" in err and len(err.strip().splitlines()) == 1
    assert run(capsys, "jobs", "show", "nobody")[0] == 2


def test_drawing_a_form_and_leasing_a_job_load_no_torch() -> None:
    program = (
        "import sys, backend.jobs.supervisor, backend.jobs.as_text as t; from backend.jobs.kinds import JOB_KINDS; "
        "[kind.config for kind in JOB_KINDS.values()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(app.__file__).parent, timeout=300).returncode == 0
