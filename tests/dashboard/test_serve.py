"""`serve` as a process: it loads no weights, its engine does, and both end in order when told to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backend.errors import HeadwayError
from backend.settings import Settings
from dashboard.serve import _place
from storage import Store

ROOT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(settings: Settings, port: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`app.py serve` once it is ready, and what it said until then."""
    environ = {**os.environ, "HEADWAY_HOME": str(settings.home), "HEADWAY_CACHE": str(settings.cache)}
    command = [sys.executable, "app.py", "serve", "--port", str(port), "--target", "tiny-llama", "--device", "cpu"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            while not any("is ready" in line for line in said):
                said.append(process.stderr.readline())
                assert said[-1], f"it ended while it started: {said}"
            yield process, said
        finally:
            process.kill()


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 400
    while not true():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.05)


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return json.loads(answer.read())


def test_building_the_dashboard_imports_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys, dashboard.serve; from pathlib import Path\n"
        "from backend.engine.remote import RemoteEngine; from backend.settings import Settings\n"
        "class Idle(RemoteEngine):\n    def drafters(self, target): return []\n"
        "from dashboard.access import AccessPolicy; from dashboard.build import create_app\n"
        "from dashboard.services import DashboardSettings, Services; from storage import Store\n"
        "places = Settings(Path(sys.argv[1]), Path(sys.argv[1]))\n"
        "with Store.open(places.database) as store:\n"
        "    create_app(Services(Idle(None), AccessPolicy.for_bind(), store, DashboardSettings(), places))\n"
        "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.stdout.strip() == "[]", ended.stdout + ended.stderr


def test_told_to_end_it_ends_its_engine_and_open_streams_and_leaves_nothing_behind(tmp_path: Path) -> None:
    settings, port = Settings(tmp_path / "home", tmp_path / "cache"), free_port()
    with serving(settings, port) as (process, said):
        assert "Loading PyTorch.\n" in said
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert "libtorch" not in maps
        files = list((settings.home / "engine").glob("*.json"))
        assert len(files) == 1 and get(port, "/headway/status")["holder"] is None
        address = json.loads(files[0].read_text())
        engine = int(address["owner"].split("/")[-2])
        assert "libtorch" in Path(f"/proc/{engine}/maps").read_text()
        stream = urllib.request.urlopen(f"http://127.0.0.1:{port}/headway/events", timeout=60)
        assert stream.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        stream.read()  # raises for a stream that was cut off instead of ended
        stream.close()
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
        assert not Path(f"/proc/{engine}").exists() and not files[0].exists()
        assert not Path(address["place"]).parent.exists()


def test_a_job_has_the_device_by_name_and_goes_on_after_the_dashboard_was_closed(tmp_path: Path) -> None:
    settings, port = Settings(tmp_path / "home", tmp_path / "cache"), free_port()
    prompts = tmp_path / "prompts.jsonl"
    rows = [{"question_id": n, "category": "x", "turns": [f"Say {n} in words."]} for n in range(60)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "target": "tiny-llama",
        "prompts": [str(prompts)],
        "batch": 2,
        "max_new_tokens": 48,
        "temperatures": [0.0],
    }
    with Store.open(settings.database) as store:
        job_id = store.create_job(kind="distill", name="Distil numbers", config=config).id
        with serving(settings, port) as (process, _):
            until(lambda: (store.get_job(job_id).progress or {}).get("done", 0) > 4)
            status = get(port, "/headway/status")
            assert "numbers" in status["holder"] and status["loaded_target"] is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        assert store.get_job(job_id).status == "queued"
        with serving(settings, port):
            until(lambda: store.get_job(job_id).status not in ("queued", "running"))
            until(lambda: get(port, "/headway/status")["holder"] is None)
        job = store.get_job(job_id)
        assert (job.status, job.attempt) == ("finished", 2), job.error
        assert job.result is not None and job.result["answers"] == 60


def test_a_database_in_memory_is_refused_since_two_processes_cannot_share_it() -> None:
    with pytest.raises(HeadwayError, match="give --db a file"):
        _place(":memory:")
