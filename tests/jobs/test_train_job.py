"""Training as a job: what it remembers, how it is forked, and what it refuses. On the tiny target, by its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import app
from backend.data.answers import Answer, pack_answers
from backend.drafters.checkpoint import read_meta
from backend.jobs.fork import forked_config, run_folder
from backend.jobs.kinds import JOB_KINDS
from backend.settings import Settings
from backend.training.kept import kept_steps, weights_file
from backend.training.state import load_state
from storage import Store

TRAIN = ("train", "--target", "tiny-llama", "--num-heads", "2", "--draft-vocab", "64", "--batch-tokens", "32")
SHORT = ("--steps", "6", "--tree-nodes", "3", "--decode-prompts", "2", "--decode-tokens", "8", "--report-every", "2")


def made_up_answers(path: Path, seed: int = 0) -> Path:
    """Packed answers over a few tokens; what they say does not matter here."""
    generator = torch.Generator().manual_seed(seed)
    answers = []
    for number in range(12):
        ids = torch.randint(97, 120, (40,), generator=generator).tolist()
        answers.append(Answer(f"q{number}", "x", tuple(ids[:10]), tuple(ids[10:]), 0.0, 0, "length", True))
    pack_answers(answers, path)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    code = app.main([*words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_a_drafter_remembers_where_it_came_from_and_a_fork_starts_with_its_weights(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, done, err = run(capsys, *TRAIN, *SHORT, "--answers", str(answers), "--name", "first one")
    assert (code, err) == (0, "") and Path(done["out"]) == home / "home" / "drafters" / "first-one"
    meta = read_meta(Path(done["out"]))
    lineage = meta.lineage
    assert meta.name == "first one" and lineage["seed"] == 0 and lineage["parent"] is None
    assert lineage["drafter"]["draft_vocab"] == 64 and lineage["training"]["steps"] == 6
    assert str(home) not in json.dumps(lineage) and "answers.npz" in lineage["command"]
    assert meta.numbers["decoded_acceptance_length"] >= 1 and meta.numbers["kept_step"] <= 6
    with Store.open(home / "home" / "runs.db") as store:
        [parent] = store.list_jobs()
        drafter = store.get_drafter(str(parent.drafter_id))
        assert drafter.weights_hash == meta.weights_sha256 and drafter.version_id == parent.version_id
        assert drafter.lineage["dataset_sha256"] == lineage["dataset_sha256"]
        steps = [row.step for row in store.metrics(parent.id)]
        assert sorted(steps) == [0, 2, 4, 6]
        changed = forked_config(parent, {"training": {"learning_rate": 1e-9}, "name": "second"})
    assert changed["training"]["steps"] == 6 and changed["start_from"] == parent.id and "out" not in changed
    file = home / "fork.yaml"
    file.write_text(json.dumps(changed))
    code, done, err = run(capsys, "train", "--config", str(file))
    assert (code, err) == (0, "")
    first, second = (
        load_file(home / "home" / "drafters" / name / "model.safetensors") for name in ("first-one", "second")
    )
    assert all(torch.allclose(first[name].float(), second[name].float(), atol=1e-6) for name in first)
    assert read_meta(home / "home" / "drafters" / "second").lineage["parent"]["job"] == parent.id
    with Store.open(home / "home" / "runs.db") as store:
        assert [job.parent_id for job in store.list_jobs()] == [parent.id, None]


def test_a_fork_may_start_from_any_step_that_is_kept(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    kept = ("--checkpoint-every", "2", "--kept-checkpoints", "2", "--keep", "last")
    work = home / "elsewhere"
    assert run(capsys, *TRAIN, *SHORT, *kept, "--answers", str(answers), "--work", str(work))[0] == 0
    with Store.open(home / "home" / "runs.db") as store:
        [parent] = store.list_jobs()
        folder = run_folder(parent, Settings.from_environ())
    assert folder.parent == work and kept_steps(folder) == [4, 6]
    for start in (f"{parent.id}@4", f"{work}@4"):
        code, done, err = run(
            capsys, *TRAIN, *SHORT, *kept, "--answers", str(answers), "--start-from", start, "--learning-rate", "1e-12"
        )  # fmt: skip
        assert (code, err) == (0, "")
        assert read_meta(Path(done["out"])).lineage["parent"]["step"] == 4
        model = load_state(folder, weights_file(4))
        assert model is not None
        found = load_file(Path(done["out"]) / "model.safetensors")
        for name, value in model["model"].items():
            assert torch.allclose(found[name].float(), value.float(), atol=1e-5), name
    with Store.open(home / "home" / "runs.db") as store:
        assert [job.parent_id for job in store.list_jobs()] == [None, parent.id, None]
    code, _, err = run(capsys, *TRAIN, *SHORT, "--answers", str(answers), "--start-from", f"{parent.id}@5")
    assert code == 2 and "keeps no weights of step 5; it keeps those of " in err and "4, 6 " in err


def test_two_drafters_of_one_name_get_places_of_their_own(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    places = [
        Path(run(capsys, *TRAIN, *SHORT, "--answers", str(answers), "--seed", str(seed))[1]["out"]).name
        for seed in (1, 2)
    ]
    assert places == ["medusa-tiny-llama", "medusa-tiny-llama-2"]
    features = [path for path in (home / "cache" / "features").iterdir() if path.is_dir()]
    assert len(features) == 2  # training and held-out, shared by both jobs
    assert not list((home / "home" / "drafters").glob(".*"))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--start-from", "nobody"), "no job and no folder 'nobody'"),
        (("--start-from", "."), "no checkpoint to start from"),
        (("--start-from", ".@3"), "no checkpoint to start from"),
        (("--tree-nodes", "0"), "--tree-nodes"),
        (("--explosion-factor", "0.5"), "--explosion-factor"),
        (("--batch-tokens", "100000"), "fewer than one batch"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_a_failed_job(
    capsys: pytest.CaptureFixture[str], home: Path, words: tuple[str, ...], part: str
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, _, err = run(capsys, *TRAIN, *SHORT, "--answers", str(answers), *words)
    assert code == 2 and part in err and len(err.strip().splitlines()) == 1
    with Store.open(home / "home" / "runs.db") as store:
        for job in store.list_jobs():
            assert job.status == "failed" and job.error == err.strip()


def test_weights_of_another_shape_are_refused(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    done = run(capsys, *TRAIN, *SHORT, "--answers", str(answers))[1]
    wider = ("--answers", str(answers), "--start-from", done["out"], "--num-heads", "3")
    code, _, err = run(capsys, *TRAIN, *SHORT, *wider)
    assert code == 2 and "don't fit these settings" in err


def test_kinds_know_what_they_write_to() -> None:
    kind = JOB_KINDS["train"]
    config = kind.settled(kind.config.model_validate({"answers": "a.npz", "out": "here", "start_from": "1abc"}))
    assert kind.exclusive(config) == f"file:{Path('here').absolute()}"
    assert config.model_dump()["start_from"] == "1abc" and Path(config.model_dump()["answers"]).is_absolute()
