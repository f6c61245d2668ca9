"""The machine's numbers are those of this machine, and a GPU's are read only where its library and driver are."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import psutil
import pytest

from backend.engine.machine import Monitor


def test_the_numbers_are_those_of_this_process_and_machine(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path / "home that is not there yet")
    before = monitor.read()
    ballast = bytearray(os.urandom(1)) * (200 << 20)
    after = monitor.read()
    assert after["process"]["memory_bytes"] - before["process"]["memory_bytes"] > 150 << 20 and len(ballast)
    assert after["process"]["pid"] == os.getpid() and after["process"]["threads"] >= 1
    assert after["system"]["memory_bytes"] == psutil.virtual_memory().total
    assert 0 < after["system"]["available_bytes"] < after["system"]["memory_bytes"]
    assert 0 <= after["system"]["cpu_percent"] <= 100 and after["system"]["cpus"] == os.cpu_count()
    assert 0 < after["disk"]["free_bytes"] <= after["disk"]["total_bytes"]


def test_workers_are_the_processes_that_this_one_started(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path)
    before = monitor.read()["workers"]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        during = monitor.read()["workers"]
        child.communicate(b"\n")
    assert during["count"] == before["count"] + 1 and during["memory_bytes"] > before["memory_bytes"]


def test_a_gpu_is_read_through_the_library_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def refuse(handle: int) -> None:
        raise NVMLError

    fakes = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"Card",
        "nvmlDeviceGetMemoryInfo": lambda handle: types.SimpleNamespace(total=100, used=7),
        "nvmlDeviceGetUtilizationRates": refuse,
    }
    vars(library).update(fakes)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert Monitor(tmp_path).read()["gpus"] == [{"name": "Card", "memory_bytes": 100, "used_bytes": 7, "percent": None}]
    monkeypatch.setattr(library, "nvmlInit", lambda: refuse(0), raising=False)
    assert Monitor(tmp_path).read()["gpus"] == []


def test_without_the_library_there_are_no_gpus_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Monitor(tmp_path).read()["gpus"] == []
