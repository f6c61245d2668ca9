"""Servers, load tests and comparisons as the Serve page shows them. Pure functions of jobs and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from backend.serving.environment import VllmEnvironment
from dashboard.presenters.as_csv import as_csv

KINDS: Final = ("vllm", "load-test", "compare-serving")
_BUILDS: Final = {"cpu": "CPU build", "cuda": "CUDA"}
_CSV: Final = (
    "arm",
    "clients",
    "rate",
    "tokens_per_s",
    "requests",
    "answered",
    "failed",
    "cut",
    "tokens",
    "seconds",
    "rounds",
)
_TIMES: Final = ("ttft_ms", "tpot_ms", "latency_ms")


def vllm_words(vllm: VllmEnvironment) -> str:
    """What is installed: "vLLM 0.32.0, CPU build"."""
    return f"vLLM {vllm.version}, {_BUILDS[vllm.build]}"


def served_by(items: Sequence[Any]) -> tuple[str, str] | None:
    """(label, URL) of a server that a job has running; None while it loads."""
    server = next((item.data for item in items if item.key == "server"), None)
    if server is None:
        return None
    drafts = "drafts" if server.get("speculates") else "plain"
    return f"{server['model']}, {drafts}, {str(server['url']).removeprefix('http://')}", str(server["url"])


def conditions_of(kind: str, config: Mapping[str, Any], server: Mapping[str, Any]) -> list[str]:
    """What the numbers stand on, in a few words each."""
    found = [str(server["version"])] if server.get("version") else []
    if server.get("build"):
        found.append(_BUILDS.get(str(server["build"]), str(server["build"])))
    if kind != "vllm":
        found.append(f"answers up to {config.get('max_new_tokens')} tokens")
        found.append(f"T = {config.get('temperature', 0) or 0:g}")
    if kind == "load-test":
        found.append(f"{config.get('rounds')} rounds of {config.get('seconds'):g} s")
    if server.get("contended"):
        found.append("something else had the device")
    return found


def speculation_words(server: Mapping[str, Any]) -> str:
    """How the server drafts."""
    config = server.get("speculation")
    if config:
        return f"{config['method']}, {config['num_speculative_tokens']} tokens at a time"
    return {True: "drafts", False: "no drafter", None: "does not say whether it drafts"}[server.get("speculates")]


def load_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line an arm and load."""
    depth = max((len((row.get("drafts") or {}).get("rates", [])) for row in rows), default=0)
    times = [f"{name}_{which}" for name in _TIMES for which in ("p50", "p95", "p99")]
    head = [*_CSV, *times, *(f"position_{place}" for place in range(1, depth + 1))]
    listed = []
    for row in rows:
        rates = (row.get("drafts") or {}).get("rates", [])
        spent = [(row.get(name) or {}).get(which) for name in _TIMES for which in ("p50", "p95", "p99")]
        listed.append([*(row.get(name) for name in _CSV), *spent, *rates, *[None] * (depth - len(rates))])
    return as_csv(head, listed)


def positions_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a position of a comparison."""
    names = ("position", "own", "served", "difference", "own_steps", "served_steps")
    return as_csv(names, ([row[name] for name in names] for row in rows))
