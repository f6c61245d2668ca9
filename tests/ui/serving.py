"""A dashboard on a free port, in a thread, for tests that need a real server. Knows no test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from dashboard.build import create_app
from dashboard.services import Services


@contextmanager
def serving(services: Services) -> Iterator[str]:
    """The address of the running dashboard; the server and the engine stop at the end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    config = uvicorn.Config(create_app(services), host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)
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
