"""Runs a coroutine function from a plain test, also where Playwright already runs a loop in the test's thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio


def run(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """What `await function(*arguments)` gives, in a loop and thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, function, *arguments).result()
