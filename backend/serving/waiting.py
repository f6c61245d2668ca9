"""Waiting for a server to load, and what a running one says, asked without a loop of one's own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from backend.errors import Cancelled, HeadwayError
from backend.serving.client import ServerGone, ServerInfo, ask_counters, ask_info, http_client, is_well
from backend.serving.counters import DraftCounters
from backend.serving.run_to_end import run_to_end
from backend.serving.server import Server

LOOK_S: Final = 0.5
_PREFIX: Final = re.compile(r"^(\(.*?\)\s*)?(INFO|WARNING|DEBUG)\s+\S+\s+\S+\s+(\[[^\]]*\]\s*)?")


def wait_until_ready(
    server: Server,
    seconds: float,
    stopped: Callable[[], bool] = lambda: False,
    note: Callable[[float, str], None] = lambda seconds, line: None,
) -> ServerInfo:
    """What it serves, once it answers. `note` gets the time so far and its last line.

    Raises HeadwayError with the reason when it ends by itself or is not ready in time, Cancelled when `stopped` says
    so; the server is left to whoever started it.
    """
    begin = time.monotonic()
    while True:
        if server.exit_code() is not None:
            raise server.died()
        if stopped():
            raise Cancelled("Stopped before the server was ready.")
        spent = time.monotonic() - begin
        if spent > seconds:
            raise HeadwayError(
                f"The vLLM server was not ready after {seconds:.0f} s; its log is {server.log}. Give it longer with "
                "--startup-s, or see what it waits for."
            )
        lines = server.output()
        note(spent, _plain(lines[-1]) if lines else "")
        if _answers(server.options.url):
            return server_info(server.options.url)
        time.sleep(LOOK_S)


def server_info(url: str) -> ServerInfo:
    """See client.ask_info."""

    async def ask() -> ServerInfo:
        async with http_client(url) as client:
            return await ask_info(client)

    return run_to_end(ask())


def server_counters(url: str) -> DraftCounters | None:
    """See client.ask_counters."""

    async def ask() -> DraftCounters | None:
        async with http_client(url) as client:
            return await ask_counters(client)

    return run_to_end(ask())


def server_is_well(url: str, timeout_s: float = 2.0) -> bool:
    """See client.is_well."""

    async def ask() -> bool:
        async with http_client(url) as client:
            return await is_well(client, timeout_s)

    return run_to_end(ask())


def _answers(url: str) -> bool:
    try:
        return server_is_well(url)
    except ServerGone:
        return False


def _plain(line: str) -> str:
    """vLLM's line without time, process and file."""
    return _PREFIX.sub("", line.strip())
