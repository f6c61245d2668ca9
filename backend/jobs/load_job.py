"""A load test as a job: each load on each arm (with drafts, without), round by round in alternating order.

One item a measured part, so that a test that was stopped goes on with the next one. Every request is a line of
requests.jsonl in the job's folder. Where no URL is given, vLLM is started for each arm in turn, one at a time: two
would share the device. Knows no page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backend.data.prompts import read_prompts
from backend.engine.conditions import packages
from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.load_config import LoadJobConfig
from backend.jobs.places import write_result
from backend.jobs.served import Served, device_held, prepare, refuse_sampling, refuse_sampling_at, running
from backend.serving.client import ServerInfo, base_url
from backend.serving.environment import find_vllm
from backend.serving.load import Load, LoadPrompt, LoadResult, RequestRecord, run_load
from backend.serving.load_figures import DRAFTS, PLAIN, figures, summary
from backend.serving.server import LOG, Server
from backend.serving.waiting import server_info
from backend.targets.kernels import cpu_name

RAW: Final = "requests.jsonl"
FILE: Final = "load.json"
WARM_TOKENS: Final = 8


@dataclass(frozen=True)
class Part:
    """One load on one arm in one round."""

    round: int
    arm: str
    load: Load

    @property
    def key(self) -> str:
        """The name of its item."""
        return f"{self.round}|{self.arm}|{self.load.label}"


def run(config: LoadJobConfig, context: JobContext) -> dict[str, Any]:
    """Measure. Returns {rows, speedups, break_even, same_answers, gone, file, raw}.

    Raises HeadwayError for what a person can mend, Cancelled when it was asked to stop.
    """
    files = [Path(path).expanduser() for path in config.prompts]
    hashes = context.pin(files)
    prompts = load_prompts(config, files)
    parts = plan(config)
    raw = _Raw(context.folder / RAW, set(context.items()))
    gone = next((row["gone"] for row in context.items().values() if row.get("gone")), None)
    servers: dict[str, Any] = {}
    with _Arms(config, context) as arms:
        for number, part in enumerate(parts):
            context.progress(number, len(parts), "loads", f"{part.arm}, {part.load.label}")
            if gone is not None or part.key in context.items():
                continue
            if context.should_stop():
                raise Cancelled("The load test was stopped; what it has measured is kept.")
            info = arms.ready(part.arm)
            servers[part.arm] = {"url": info.url, "model": info.model, "version": info.version}
            result = _measure(config, context, arms, part, prompts, raw, number, len(parts))
            gone = arms.why_gone(result.gone)
            row = summary(result) | {"round": part.round, "arm": part.arm, "gone": gone, "server": servers[part.arm]}
            context.item(part.key, row)
            if gone is not None:
                context.log(gone)
    context.progress(len(parts), len(parts), "loads")
    return _finished(config, context, raw, hashes, gone)


def plan(config: LoadJobConfig) -> list[Part]:
    """All parts in the order they are measured: a round begins with the arm that the one before ended with."""
    named = [DRAFTS, PLAIN] if config.url is None and config.drafter != "none" else [PLAIN]
    if config.url is not None:
        named = [DRAFTS, PLAIN] if config.plain_url is not None else [DRAFTS]
    loads = [_load(config, clients=one) for one in config.clients] + [_load(config, rate=one) for one in config.rates]
    found = []
    for number in range(config.rounds):
        for arm in named if number % 2 == 0 else named[::-1]:
            found += [Part(number, arm, load) for load in loads]
    return found


def load_prompts(config: LoadJobConfig, files: list[Path]) -> list[LoadPrompt]:
    """What is asked first in every row; as text without a template where completions are asked. Raises HeadwayError."""
    listed = [prompt for file in files for prompt in read_prompts(file, config.limit).prompts]
    if not listed:
        raise HeadwayError("The prompt files hold no prompts; choose others.")
    chat = config.api == "chat"
    return [
        LoadPrompt(one.question_id, one.category, one.question(0) if chat else one.question(0)[-1]["content"])
        for one in listed
    ]


def _load(config: LoadJobConfig, clients: int | None = None, rate: float | None = None) -> Load:
    return Load(
        clients, rate, config.seconds, config.max_new_tokens, config.temperature, config.seed, config.max_requests,
        ignore_eos=config.ignore_eos, api=config.api,
    )  # fmt: skip


def _measure(
    config: LoadJobConfig, context: JobContext, arms: _Arms, part: Part, prompts: list[LoadPrompt], raw: _Raw,
    number: int, total: int,
) -> LoadResult:  # fmt: skip
    def tick(seconds: float, done: int, counters: Any) -> None:
        share = min(1.0, seconds / config.seconds)
        context.progress(number + share, total, "loads", f"{part.arm}, {part.load.label}: {done} answers")

    def keep(record: RequestRecord) -> None:
        raw.add(part, record)

    info = arms.ready(part.arm)
    return run_load(info.url, info.model, prompts, part.load, keep, context.should_stop, tick)


class _Arms:
    """The servers: those that run already, or vLLM started for one arm at a time."""

    def __init__(self, config: LoadJobConfig, context: JobContext) -> None:
        self._config, self._context = config, context
        self._stack, self._inner = ExitStack(), ExitStack()
        self._arm: str | None = None
        self._info: ServerInfo | None = None
        self._server: Server | None = None
        self._own = config.url is None
        self._served: dict[str, Served] = {}
        if self._own:
            self._vllm = find_vllm(context.settings)
            refuse_sampling(self._vllm.build, config.drafter != "none", config.temperature)

    def __enter__(self) -> _Arms:
        held: Any = nullcontext(True)
        if self._own:
            place = "cuda" if self._vllm.build == "cuda" else "cpu"
            held = device_held(self._context, place, f"load test of {self._config.target}")
        self.alone = self._stack.enter_context(held)
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.close()
        self._stack.close()

    def ready(self, arm: str) -> ServerInfo:
        """The arm's server, started and warm. Raises HeadwayError or Cancelled."""
        if self._arm == arm and self._info is not None:
            return self._info
        self._inner.close()
        self._inner, self._arm = ExitStack(), arm
        self._info = self._started(arm) if self._own else self._found(arm)
        prompt = LoadPrompt(
            "warm", "", [{"role": "user", "content": "Hello"}] if self._config.api == "chat" else "Hello"
        )
        warm = Load(1, None, 60.0, WARM_TOKENS, max_requests=1, api=self._config.api)
        done = run_load(self._info.url, self._info.model, [prompt], warm, stopped=self._context.should_stop)
        if done.records and done.records[0].error is not None:
            raise HeadwayError(done.records[0].error)
        return self._info

    def why_gone(self, told: str | None) -> str | None:
        """The same, with the server's own reason where it is one of ours."""
        if told is None or self._server is None:
            return told
        time.sleep(1.0)  # its process ends a moment after its connections
        return told if self._server.exit_code() is None else f"{self._server.died()} The test ended with what it had."

    def _started(self, arm: str) -> ServerInfo:
        config = self._config if arm == DRAFTS else self._config.model_copy(update={"drafter": "none"})
        if arm not in self._served:
            self._served[arm] = prepare(config, self._context)
        served = self._served[arm]
        log = self._context.folder / LOG
        self._context.log(f"Starting vLLM {self._vllm.version} for {arm}; its log is {log}.")
        self._server = self._inner.enter_context(running(config, served, self._vllm, self._context, log))
        return server_info(self._server.options.url)

    def _found(self, arm: str) -> ServerInfo:
        url = self._config.url if arm == DRAFTS else self._config.plain_url
        info = server_info(base_url(url or ""))
        refuse_sampling_at(info.url, self._config.temperature, self._context)
        return info


class _Raw:
    """The lines of all requests; those of parts that were not finished are dropped when a job goes on."""

    def __init__(self, path: Path, finished: set[str]) -> None:
        self.path = path
        if path.is_file():
            kept = [row for row in self.rows() if row.get("part") in finished]
            path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")

    def rows(self) -> list[dict[str, Any]]:
        """All lines so far; a cut last one is left out."""
        return list(_whole_lines(self.path)) if self.path.is_file() else []

    def add(self, part: Part, record: RequestRecord) -> None:
        row = {"part": part.key, "round": part.round, "arm": part.arm, "load": part.load.label, **record.to_dict()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _finished(
    config: LoadJobConfig, context: JobContext, raw: _Raw, hashes: dict[str, str], gone: str | None
) -> dict[str, Any]:
    items = context.items()
    found = figures(items, raw.rows())
    servers = {row["arm"]: row["server"] for row in items.values()}
    conditions = {
        "servers": servers, "target": config.target if config.url is None else None,
        "drafter": config.drafter if config.url is None else None,
        "prompts": {Path(path).name: content for path, content in hashes.items()},
        "machine": cpu_name(), "packages": packages(), "settings": config.model_dump(mode="json"),
    }  # fmt: skip
    whole = found | {"gone": gone, "conditions": conditions, "parts": list(items.values())}
    place = write_result(context.folder, FILE, json.dumps(whole, indent=1) + "\n", config.out)
    return found | {"gone": gone, "file": str(place), "raw": str(raw.path), "servers": servers}
