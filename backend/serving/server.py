"""A vLLM server as a process of its own: the command, its environment, starting, watching and stopping it.

It knows vLLM's options and nothing of drafters, jobs or pages; what it can't know is whether the server answers, which
client.py asks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.errors import HeadwayError
from backend.serving import tied
from backend.serving.causes import why_it_died
from backend.serving.environment import VllmEnvironment
from tools.openmp_env import openmp_env

MODULE: Final = "vllm.entrypoints.openai.api_server"  #: the `vllm` command does not run in the CPU build
LOG: Final = "vllm.log"  #: what a server of ours says, in its job's folder
FEW_CORES: Final = 4  #: up to as many all are bound; vLLM itself would keep one back
LAST_LINES: Final = 40
STOP_S: Final = 15.0
#: of our own process; a vLLM that inherited them would load our OpenMP or our modules
_NOT_HANDED_ON: Final = ("LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "HEADWAY_OPENMP", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class ServerOptions:
    """What a server is started with.

    Args:
        model: folder of the target's checkpoint; `name`: what clients call it.
        speculation: vLLM's speculative config, None for plain decoding.
        dtype: float32, bfloat16, float16 or auto; the CPU build is only right in float32.
        cache_gb: whole GiB for keys and values on a CPU, where vLLM would take a large share of the memory.
        more: further words for vLLM's command line.
    """

    model: Path
    name: str
    port: int
    host: str = "127.0.0.1"
    speculation: Mapping[str, Any] | None = None
    dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    cache_gb: int = 1
    eager: bool = True
    more: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host
        return f"http://{host}:{self.port}"


def command(vllm: VllmEnvironment, options: ServerOptions) -> list[str]:
    """The words that start the server."""
    words = [
        str(vllm.python), "-m", MODULE, "--model", str(options.model), "--served-model-name", options.name,
        "--host", options.host, "--port", str(options.port), "--dtype", options.dtype,
    ]  # fmt: skip
    if options.max_model_len is not None:
        words += ["--max-model-len", str(options.max_model_len)]
    if options.max_num_seqs is not None:
        words += ["--max-num-seqs", str(options.max_num_seqs)]
    if options.eager:
        words.append("--enforce-eager")
    if options.speculation is not None:
        words += ["--speculative-config", json.dumps(dict(options.speculation))]
        words += ["--per-request-spec-decode-metrics", "summary"]
    return [*words, *options.more]


def environment(vllm: VllmEnvironment, options: ServerOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process: ours, without what belongs to our own Python, and what this build needs."""
    kept = {k: v for k, v in environ.items() if k not in _NOT_HANDED_ON and not k.startswith("KMP_")}
    # The model is a folder by now, so nothing has to be looked up, and nobody is told that it runs.
    kept |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    if vllm.build == "cpu":
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        bind = ",".join(map(str, cores)) if 0 < len(cores) <= FEW_CORES else "auto"
        kept |= {"VLLM_CPU_KVCACHE_SPACE": str(options.cache_gb), "VLLM_CPU_OMP_THREADS_BIND": bind}
        kept |= openmp_env(vllm.root, kept)
    return kept


class Server:
    """One started server. Its output goes to the end of `log`; what stood there before is not its own."""

    def __init__(self, process: subprocess.Popen[bytes], options: ServerOptions, log: Path, begins: int) -> None:
        self.options, self.log = options, log
        self._process, self._begins = process, begins

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def output(self) -> list[str]:
        """The lines it has written so far."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(self._begins)
            return file.read().decode("utf-8", "replace").splitlines()
        return []

    def died(self) -> HeadwayError:
        """Why it ended, as far as its last words tell; with these."""
        lines = self.output()
        cause = why_it_died(lines, self.exit_code())
        tail = [line for line in lines if line.strip()][-LAST_LINES:]
        said = f" Its last line: {tail[-1].strip()[:300]}" if tail else " It said nothing."
        return HeadwayError(f"The vLLM server ended by itself. {cause}{said} (The whole log is {self.log}.)")

    def stop(self, patience_s: float = STOP_S) -> None:
        """Ask it to end, wait, then end it and everything it started. Does nothing when it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # engine processes that are left, or a server that hangs
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)


def start_server(vllm: VllmEnvironment, options: ServerOptions, log: Path) -> Server:
    """Start it; it is loading when this returns. Raises HeadwayError when the port is taken or it can't be started."""
    check_port(options.host, options.port)
    words = command(vllm, options)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("ab") as file:
            begins = file.tell()
            process = subprocess.Popen(
                [sys.executable, str(Path(tied.__file__)), str(os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(vllm, options, os.environ),
                start_new_session=True,
            )
    except OSError as error:
        raise HeadwayError(f"The server could not be started: {error.strerror or error}.") from None
    return Server(process, options, log, begins)


def check_port(host: str, port: int) -> None:
    """Raises HeadwayError when something listens there already, or the address is not this machine's."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise HeadwayError(
                f"The port {port} of {host} can't be used ({reason}); choose another one, or 0 for any free one."
            ) from None


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens at now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
