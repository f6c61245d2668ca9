"""A job as command, as file and back: nothing lost, mistakes in one sentence, the command line wins over the file."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import app
from backend.drafters.medusa.config import MedusaSettings
from backend.errors import HeadwayError
from backend.jobs.adapters_config import AdaptersJobConfig
from backend.jobs.as_text import (
    add_config_options,
    as_command,
    as_yaml,
    asked_of,
    config_from_file,
    config_of,
    settings_file,
    take_config_file,
)
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
    "adapters": AdaptersJobConfig(
        adapter=("kind=a b/kind", "curt=owner/curt@main"),
        prompts=("kind=it's.jsonl", "curt=b.jsonl", "curt=c.jsonl"),
        traffic=("kind=3",),
        min_gain=0.1,
        out="o",
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


@pytest.mark.parametrize("kind", JOB_KINDS)
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


def parser_of(name: str) -> argparse.ArgumentParser:
    """A command's own parser, as app.py makes it."""
    parser = argparse.ArgumentParser(prog=f"app.py {name}")
    importlib.import_module(app.COMMANDS[name][0]).add_arguments(parser)
    take_config_file(parser)
    return parser


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_takes_its_options_from_a_file(name: str, tmp_path: Path) -> None:
    words: list[str] = []
    settings: dict[str, Any] = {}
    own = {leaf.name: leaf for leaf in leaves(JOB_KINDS[name].config)} if name in JOB_KINDS else {}
    excluded: set[str] = set()
    parser = parser_of(name)
    for action in parser._actions:
        if action.dest in excluded or action.dest in ("help", "config"):
            continue
        typed, value = sample(action)
        words += typed
        place = settings
        for key in own[action.dest].path[:-1] if action.dest in own else ():
            place = place.setdefault(key, {})
        place[action.dest] = value
        groups = [group for group in parser._mutually_exclusive_groups if action in group._group_actions]
        excluded |= {action.dest, *(other.dest for group in groups for other in group._group_actions)}
    assert settings
    file = tmp_path / "options.yaml"
    file.write_text(settings_file(name, settings), encoding="utf-8")
    typed_args, from_file = parser_of(name).parse_args(words), parser_of(name).parse_args(["--config", str(file)])
    if own:
        assert plain(asked_of(name, typed_args)) == plain(asked_of(name, from_file)) == plain(given_by(settings, own))
    others = {key: value for key, value in vars(typed_args).items() if key not in own and key != "config"}
    assert others == {key: value for key, value in vars(from_file).items() if key in others}


def given_by(settings: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The part of the settings that is the job's."""
    return {key: value for key, value in settings.items() if key in own or isinstance(value, dict)}


def sample(action: argparse.Action) -> tuple[list[str], Any]:
    """An option as it is typed and as it stands in a file, with another value than its default."""
    option = action.option_strings[0] if action.option_strings else None
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return [str(option)], True
    if action.choices:
        value: Any = str(list(action.choices)[-1])
    elif action.type not in (None, str):
        value = next(one for one in (7, 0.25, [1.0, 2.5], {"a": [1]}) if _takes(action, one))
    else:
        value = f"some {action.dest}"
    typed = json.dumps(value).strip("[]") if isinstance(value, list) else str(value)
    typed = json.dumps(value) if isinstance(value, dict) else typed
    if isinstance(action, argparse._AppendAction):
        return [str(option), typed, str(option), typed], [value, value]
    if action.nargs in ("*", "+"):
        return [*([option] if option else []), typed, typed], [value, value]
    return [*([option] if option else []), typed], value


def _takes(action: argparse.Action, value: Any) -> bool:
    """Whether the type of the option is the value's own."""
    name = getattr(action.type, "__name__", "")
    return {"int": int, "float": float, "_numbers": list, "_json": dict}[name] is type(value)


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_a_file_names_an_argument_without_an_option_and_a_list_stands_for_commas(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    file = home / "check.yaml"
    file.write_text("path: nowhere\nengine: vllm\njson: true\n")
    code, out, err = run(capsys, "check", "--config", str(file))
    assert code == 2 and out == "" and "nowhere" in err
    assert "elsewhere" in run(capsys, "check", "elsewhere", "--config", str(file))[2]
    file.write_text("answers: nowhere.jsonl\ndepths: [1, x]\n")
    assert "--depths takes whole numbers" in run(capsys, "vocab-curve", "--config", str(file))[2]
    file.write_text("hits: h.json\ncalibration: c.json\n")
    assert "not both" in run(capsys, "tune-tree", "--config", str(file))[2]
    file.write_text("hits: h.json\nmeasure: [a.jsonl]\n")
    assert "Measuring needs a drafter" in run(capsys, "tune-tree", "--config", str(file))[2]
    file.write_text("drafter: nobody\nengine: own\nno_store: true\n")
    assert "no drafter folder nobody" in run(capsys, "export", "--config", str(file))[2]
    assert "no drafter folder typed" in run(capsys, "export", "typed", "--config", str(file))[2]
