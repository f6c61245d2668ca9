"""Running asynchronous work to its end from ordinary code. Knows no server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or what it raises. In a thread of its own, because the caller's may have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
