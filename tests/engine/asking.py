"""Requests on the tiny target, and a look at events. Knows no test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from backend.engine.protocol import DecodeRequest, Engine, Event, Message


def ask(text: str = "hello hello hello", **values: Any) -> DecodeRequest:
    defaults: dict[str, Any] = {"target": "tiny-llama", "drafter": "ngram", "max_new_tokens": 24}
    return DecodeRequest(messages=(Message(role="user", content=text),), **(defaults | values))


def until(true: Callable[[], bool]) -> None:
    """Returns when it is true; fails after a minute."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.02)


def follow(engine: Engine, run_id: str) -> list[Event]:
    return list(engine.events(run_id))
