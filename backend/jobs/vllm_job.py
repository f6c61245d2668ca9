"""A vLLM server as a job: started, watched until it is stopped, its drafts counted; or a running one that is watched.

While it runs, the job's metrics are what the server counted in the last seconds (the step is seconds since it was
ready), and its item `server` says where it is. The server ends with the job, whatever way that ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from backend.errors import Cancelled, HeadwayError
from backend.jobs.context import JobContext
from backend.jobs.served import device_held, note_loading, options_of, prepare, refuse_sampling
from backend.jobs.vllm_config import VllmJobConfig
from backend.serving.client import ServerGone, ServerInfo, base_url
from backend.serving.counters import DraftCounters
from backend.serving.environment import find_vllm
from backend.serving.server import LOG, Server, check_port, free_port, start_server
from backend.serving.waiting import server_counters, server_info, server_is_well, wait_until_ready

ITEM: Final = "server"
LOOK_S: Final = 1.0
COUNT_S: Final = 2.0
LOST_LOOKS: Final = 3  #: looks in a row that nothing answered, before a watched server counts as gone


def run(config: VllmJobConfig, context: JobContext) -> dict[str, Any]:
    """Serve until stopped. Ends by Cancelled; raises HeadwayError with the reason when the server ends by itself."""
    if config.url is not None:
        return _watch_running(base_url(config.url), context)
    vllm = find_vllm(context.settings)
    refuse_sampling(vllm.build, config.drafter != "none", config.temperature)
    port = config.port or free_port(config.host)
    check_port(config.host, port)  # before minutes are spent on loading
    served = prepare(config, context)
    options = options_of(config, served, vllm, port, config.host, config.temperature)
    log = context.folder / LOG
    log.unlink(missing_ok=True)  # what an earlier attempt said
    with device_held(context, "cuda" if vllm.build == "cuda" else "cpu", f"serving {config.target}") as alone:
        if not alone:
            context.log("Something else has the device; the server starts all the same, and both will be slow.")
        context.log(f"Starting vLLM {vllm.version} ({vllm.build} build) from {vllm.root}; its log is {log}.")
        server = start_server(vllm, options, log)
        try:
            info = wait_until_ready(server, config.startup_s, context.should_stop, note_loading(context))
            context.item(ITEM, _item(info, server.pid, vllm.build, alone) | served.to_dict())
            return _watch(context, info, server.exit_code, server)
        finally:
            server.stop()


def _watch_running(url: str, context: JobContext) -> dict[str, Any]:
    info = server_info(url)
    context.item(ITEM, _item(info, None, None, True))
    return _watch(context, info, lambda: None, None)


def _item(info: ServerInfo, pid: int | None, build: str | None, alone: bool) -> dict[str, Any]:
    return {
        "url": info.url, "model": info.model, "version": info.version, "max_model_len": info.max_model_len,
        "speculates": info.speculates, "pid": pid, "build": build, "contended": not alone,
    }  # fmt: skip


def _watch(
    context: JobContext, info: ServerInfo, exit_code: Callable[[], int | None], server: Server | None
) -> dict[str, Any]:
    context.log(f"{info.model} answers at {info.url}" + (f" ({info.version})." if info.version else "."))
    context.progress(1, 1, "loading", f"answers at {info.url}")
    meter = _Meter(context, info.url)
    lost = 0
    while not context.should_stop():
        if exit_code() is not None and server is not None:
            raise server.died()
        try:
            server_is_well(info.url)
            meter.read()
            lost = 0
        except ServerGone as error:
            lost += 1
            if lost >= LOST_LOOKS:
                raise (server.died() if server is not None else HeadwayError(str(error))) from None
        time.sleep(LOOK_S)
    raise Cancelled("The server was stopped." if server is not None else "The server is no longer watched.")


class _Meter:
    """Writes what was counted since the last writing, while there is something to write."""

    def __init__(self, context: JobContext, url: str) -> None:
        self._context, self._url = context, url
        self._begin = self._at = time.monotonic()
        self._last: DraftCounters | None = None
        self._quiet = False

    def read(self) -> None:
        now = time.monotonic()
        if self._last is not None and now - self._at < COUNT_S:
            return
        counters = server_counters(self._url)
        if counters is None:
            return
        if self._last is not None:
            self._write(counters, counters.since(self._last), now - self._at, round(now - self._begin))
        self._last, self._at = counters, now

    def _write(self, whole: DraftCounters, since: DraftCounters, seconds: float, step: int) -> None:
        idle = not since.generated and not whole.running and not whole.waiting
        if idle and self._quiet:
            return  # nothing new is worth no row
        self._quiet = idle
        values: dict[str, float] = {
            "tokens_per_s": round(since.generated / seconds, 3),
            "running": whole.running,
            "waiting": whole.waiting,
        }
        if whole.counts_drafts:
            values |= {"drafts": whole.drafts, "draft_tokens": whole.draft_tokens, "accepted": whole.accepted}
        if since.drafts:
            values["acceptance_length"] = round(since.acceptance_length or 0.0, 4)
            values |= {f"position_{place}": round(rate, 5) for place, rate in enumerate(since.rates, 1)}
        self._context.metrics(step, values)
