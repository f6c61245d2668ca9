"""Dashboards for tests: the app alone, or on a free port in a thread. Knows no test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import uvicorn
from fastapi import FastAPI

from dashboard.build import create_app
from dashboard.services import Services

Made = TypeVar("Made")


def in_loop(make: Callable[[], Made]) -> Made:
    """make() inside a running event loop: outside of one Gradio opens a loop that nobody closes."""

    async def run() -> Made:
        return make()

    with ThreadPoolExecutor(1) as thread:  # the test's own thread may have Playwright's loop already
        return thread.submit(lambda: asyncio.run(run())).result()


def built(services: Services) -> FastAPI:
    return in_loop(lambda: create_app(services))


@contextmanager
def serving(services: Services) -> Iterator[str]:
    """The address of the running dashboard; the server and the engine stop at the end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    config = uvicorn.Config(
        built(services), host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="dashboard", daemon=True)
    thread.start()
    give_up = time.monotonic() + 60
    while not server.started:
        if not thread.is_alive() or time.monotonic() > give_up:
            raise RuntimeError("the dashboard did not start")
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        services.engine.close()
        thread.join(10)
