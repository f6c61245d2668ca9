"""`torchrun app.py train`: two processes take the steps of one, go on after both were killed, and fail together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from backend.training.state import load_state
from storage import Store
from tests.jobs.test_train_families import home, run
from tests.jobs.test_train_job import made_up_answers
from tests.training.test_processes import torchrun

__all__ = ["home"]
WORDS = (
    "train", "--target", "tiny-llama", "--draft-vocab", "64", "--batch-tokens", "160", "--decode-prompts", "2",
    "--decode-tokens", "8", "--report-every", "1", "--test-time-steps", "2", "--draft-depth", "2", "--tree", "chain",
    "--json", "--device", "cpu",
)  # fmt: skip


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=600)
    return said


def curve(place: Path) -> dict[int, float]:
    with Store.open(place / "home" / "runs.db") as store:
        [job] = store.list_jobs()
        return {row.step: row.values["loss"] for row in store.metrics(job.id) if "loss" in row.values}


def out(place: Path) -> tuple[str, str]:
    """A place of its own, so that the same command is the same job."""
    return "--out", str(place / "made")


def weights(place: Path) -> dict[str, torch.Tensor]:
    return load_file(place / "made" / "model.safetensors")


@pytest.mark.parametrize("family", ["eagle3", "medusa"])
def test_two_processes_take_the_steps_of_one(capsys: pytest.CaptureFixture[str], home: Path, family: str) -> None:
    answers = made_up_answers(home / "answers.npz")
    own = WORDS if family == "eagle3" else (*WORDS[:13], "--num-heads", "2", *WORDS[17:])
    words = (*own, "--family", family, "--answers", str(answers), "--steps", "8")
    assert run(capsys, *words, *out(home))[0] == 0
    together = torchrun("app.py", *words, *out(home / "two"), home=home / "two")
    said = ended(together)
    assert together.returncode == 0, said
    done = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert done["numbers"]["steps"] == 8 and said.count('"out"') == 1, "one of them speaks"
    one, two = curve(home), curve(home / "two")
    assert two == pytest.approx(one, rel=1e-4) and len(two) == 8
    alone = weights(home)
    for name, value in weights(home / "two").items():
        torch.testing.assert_close(value.float(), alone[name].float(), atol=1e-3, rtol=1e-3)


def test_after_both_were_killed_the_same_command_goes_on(home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    words = (*WORDS, "--family", "eagle", "--noise", "0.1", "--answers", str(answers), "--steps", "40",
             "--checkpoint-every", "4", "--evaluate-every", "1000")  # fmt: skip
    whole = torchrun("app.py", *words, *out(home / "whole"), home=home / "whole")
    said = ended(whole)
    assert whole.returncode == 0, said
    cut = torchrun("app.py", *words, *out(home / "cut"), home=home / "cut")
    at = _killed_in_the_middle(cut, home / "cut")
    assert 0 < at < 40
    again = torchrun("app.py", *words, *out(home / "cut"), home=home / "cut")
    said = ended(again)
    assert again.returncode == 0 and f"Goes on at step {at}." in _log(home / "cut"), said
    right = weights(home / "whole")
    assert all(torch.equal(right[name], value) for name, value in weights(home / "cut").items())
    assert curve(home / "cut") == curve(home / "whole")


def _killed_in_the_middle(process: subprocess.Popen[str], place: Path) -> int:
    """Kill every process as soon as a state is there; the step it is of."""
    deadline = time.monotonic() + 300
    found: list[Path] = []
    while not found:
        assert time.monotonic() < deadline and process.poll() is None, ended(process)
        found = list((place / "home" / "jobs").glob("*/run/training-state.pt"))
        time.sleep(0.002)
    workers = psutil.Process(process.pid).children(recursive=True)
    for worker in workers:
        worker.kill()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    psutil.wait_procs(workers)
    state = load_state(found[0].parent)
    assert state is not None and len(workers) >= 2
    return int(state["step"])


def _log(place: Path) -> str:
    [log] = (place / "home" / "jobs").glob("*/log.txt")
    return log.read_text()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_of_one_ends_all_with_one_sentence(home: Path, rank: int) -> None:
    answers = made_up_answers(home / "answers.npz")
    words = (*WORDS, *out(home / "two"), "--family", "eagle", "--answers", str(answers), "--steps", "9",
             "--checkpoint-every", "1")  # fmt: skip
    process = torchrun("tests/jobs/torchrun_app.py", str(rank), "3", *words, home=home / "two")
    started = time.monotonic()
    said = ended(process)
    assert process.returncode != 0 and time.monotonic() - started < 120
    assert said.count("The features are gone; capture them again.") == 1, said
    assert "Stopping as soon as" not in said and "Connection closed" not in said, said
    with Store.open(home / "two" / "home" / "runs.db") as store:
        [job] = store.list_jobs()
        assert (job.status, job.error) == ("failed", "The features are gone; capture them again.")
    again = torchrun("app.py", *words, home=home / "two")
    said = ended(again)
    assert again.returncode == 0 and "Goes on at step 3." in _log(home / "two"), said


def test_two_processes_train_with_a_target_that_neither_holds_whole(home: Path) -> None:
    answers = made_up_answers(home / "answers.npz")
    words = (*WORDS, "--family", "eagle3", "--answers", str(answers), "--steps", "6", "--evaluate-every", "3")
    curves = []
    for name, spread in (("whole", ()), ("spread", ("--spread-target",))):
        process = torchrun("app.py", *words, *out(home / name), *spread, home=home / name)
        said = ended(process)
        assert process.returncode == 0, said
        curves.append(curve(home / name))
    assert len(curves[0]) == 6 and curves[1] == pytest.approx(curves[0], rel=1e-4)


@pytest.mark.parametrize(
    ("words", "part"),
    [((), "start the training with it"), (("--features", "online"), "can't be read online")],
)
def test_spreading_asks_for_several_processes_and_a_capture(
    capsys: pytest.CaptureFixture[str], home: Path, words: tuple[str, ...], part: str
) -> None:
    answers = made_up_answers(home / "answers.npz")
    code, _, err = run(capsys, *WORDS, "--family", "eagle", "--answers", str(answers), "--spread-target", *words)
    assert code == 2 and part in err and len(err.strip().splitlines()) == 1
