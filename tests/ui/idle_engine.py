"""An engine that has nothing to do: for pages that never decode. Knows no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backend.engine.protocol import DecodeRequest, EngineStatus, Event, Race, RaceRequest
from backend.errors import HeadwayError


class IdleEngine:
    """Nothing runs and nothing can be started. `pokes`: how often it was told of a new job."""

    def __init__(self) -> None:
        self.pokes = 0

    def submit(self, request: DecodeRequest) -> str:
        raise HeadwayError("This engine decodes nothing.")

    def race(self, request: RaceRequest) -> Race:
        raise HeadwayError("This engine decodes nothing.")

    def events(self, run_id: str, after: int = 0, timeout_s: float | None = None) -> Iterator[Event]:
        raise HeadwayError(f"There is no run “{run_id}”.")

    def cancel(self, run_id: str) -> None:
        raise HeadwayError(f"There is no run “{run_id}”.")

    def status(self) -> EngineStatus:
        return EngineStatus(None, None, (), None, "cpu")

    def drafters(self, target: str) -> list[dict[str, Any]]:
        return []

    def machine(self) -> dict[str, Any]:
        return {}

    def poke(self) -> None:
        self.pokes += 1

    def close(self) -> None:
        pass
