"""vLLM's process: found, started with the right words, watched, explained when it dies, gone when its starter is."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.errors import Cancelled, HeadwayError
from backend.serving.causes import why_it_died
from backend.serving.client import ServerGone, base_url
from backend.serving.environment import UNFINISHED, find_vllm, installed_in
from backend.serving.server import Server, ServerOptions, check_port, environment, free_port, start_server
from backend.serving.waiting import server_info, server_is_well, wait_until_ready
from backend.settings import Settings
from tests.serving.conftest import ROOT


def started(root: Path, tmp_path: Path, **more: object) -> Server:
    found = installed_in(root)
    assert found is not None
    options = ServerOptions(tmp_path / "model", "toy", free_port(), **more)  # type: ignore[arg-type]
    return start_server(found, options, tmp_path / "vllm.log")


def test_the_environment_is_told_by_its_metadata(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    root = fake_vllm()
    found = find_vllm(Settings(tmp_path, tmp_path, root))
    assert (found.version, found.build, found.python) == ("0.32.0", "cpu", root / "bin" / "python")
    (root / UNFINISHED).touch()
    with pytest.raises(HeadwayError, match="half installed"):
        find_vllm(Settings(tmp_path, tmp_path, root))


def test_the_project_s_own_package_is_the_cuda_build(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    root = fake_vllm(package="vllm", version="0.33.0")
    assert find_vllm(Settings(tmp_path, tmp_path, root)).build == "cuda"


def test_without_vllm_the_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(HeadwayError, match=r"app\.py vllm-setup"):
        find_vllm(Settings(tmp_path, tmp_path))
    with pytest.raises(HeadwayError, match="HEADWAY_VLLM names"):
        find_vllm(Settings(tmp_path, tmp_path, tmp_path / "nowhere"))


def test_a_server_is_started_ready_and_stopped(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    speculation = {"method": "medusa", "model": "/heads", "num_speculative_tokens": 3}
    server = started(fake_vllm(), tmp_path, speculation=speculation, dtype="float32", max_model_len=512)
    try:
        info = wait_until_ready(server, 60)
        assert (info.model, info.version, info.speculates) == ("toy", "vLLM 0.0.0-fake", True)
        line = next(line for line in server.output() if line.startswith("arguments "))
        words = json.loads(line.removeprefix("arguments "))
        assert words[words.index("--dtype") + 1] == "float32"
        assert json.loads(words[words.index("--speculative-config") + 1]) == speculation
    finally:
        server.stop()
    assert server.exit_code() is not None
    with pytest.raises(ServerGone):
        server_is_well(server.options.url)


def test_what_the_cpu_build_is_given(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    found = installed_in(fake_vllm())
    assert found is not None
    ours = {"PATH": "/bin", "LD_PRELOAD": "/ours.so", "KMP_BLOCKTIME": "5", "PYTHONPATH": "/ours"}
    given = environment(found, ServerOptions(tmp_path, "toy", 1, cache_gb=2), ours)
    assert given["VLLM_CPU_KVCACHE_SPACE"] == "2" and given["VLLM_CPU_OMP_THREADS_BIND"]
    assert "PYTHONPATH" not in given and given.get("LD_PRELOAD") != "/ours.so"


def test_a_server_that_dies_while_loading_is_explained(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "crash.txt").write_text("ValueError: Following weights were not initialized from checkpoint: {'blocks.0'}")
    server = started(fake_vllm(), tmp_path)
    with pytest.raises(HeadwayError) as caught:
        wait_until_ready(server, 60)
    server.stop()
    told = str(caught.value)
    assert "lacks tensors" in told and "blocks.0" in told and str(tmp_path / "vllm.log") in told
    assert "\n" not in told


def test_a_wait_can_be_stopped_and_ends(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    server = started(fake_vllm(), tmp_path)
    try:
        with pytest.raises(Cancelled):
            wait_until_ready(server, 60, stopped=lambda: True)
        with pytest.raises(HeadwayError, match="not ready after 0 s"):
            wait_until_ready(server, 0)
    finally:
        server.stop()


def test_a_server_ends_with_the_process_that_started_it(fake_vllm: Callable[..., Path], tmp_path: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux ties a process to its starter")
    root, port = fake_vllm(), free_port()
    script = (
        "import sys, time; from pathlib import Path\n"
        "from backend.serving.environment import installed_in; from backend.serving.server import *\n"
        f"options = ServerOptions(Path('x'), 'toy', {port})\n"
        f"one = start_server(installed_in(Path({str(root)!r})), options, Path({str(tmp_path / 'log')!r}))\n"
        "print(one.pid, flush=True); time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    starter.stdout.close()
    until = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    gone = not _alive(pid)
    if not gone:
        os.kill(pid, signal.SIGKILL)
    assert gone


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_port_in_use_is_told_before_anything_is_started() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(HeadwayError, match="can't be used"):
            check_port("127.0.0.1", taken.getsockname()[1])
    check_port("127.0.0.1", free_port())


def test_addresses_that_are_none(start_fake: Callable[..., object]) -> None:
    assert base_url(" http://127.0.0.1:8000/v1/ ") == "http://127.0.0.1:8000"
    for wrong in ("", "localhost:8000", "ftp://x", "http://", "http://x:notaport"):
        with pytest.raises(HeadwayError, match="no address"):
            base_url(wrong)
    with pytest.raises(ServerGone, match="Nothing answers"):
        server_info(f"http://127.0.0.1:{free_port()}")


def test_a_web_page_is_no_such_server(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                server_info(url)
            except ServerGone:
                time.sleep(0.05)
            except HeadwayError as error:
                assert "no OpenAI-compatible server" in str(error)
                break
        else:
            pytest.fail("the web server never answered")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("lines", "code", "word"),
    [
        (["ValueError: Following weights were not initialized from checkpoint: {'token_map'}"], 1, "--full-head"),
        (["torch.OutOfMemoryError: CUDA out of memory."], 1, "Memory ran out"),
        (["huggingface_hub.errors.GatedRepoError: 401 Client Error."], 1, "HF_TOKEN"),
        (["OSError: [Errno 98] Address already in use"], 1, "port was taken"),
        (
            ["ValueError: To serve at least one request, ... is larger than the available KV cache memory"],
            1,
            "max_model_len",
        ),
        ([], -9, "killed from outside"),
        ([], -4, "instructions"),
        (["something new"], 3, "exit code is 3"),
    ],
)
def test_known_causes(lines: list[str], code: int, word: str) -> None:
    assert word in why_it_died(lines, code)
