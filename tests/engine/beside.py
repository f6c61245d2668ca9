"""Runs beside the engine in its process, as the supervisor of jobs does, and writes down what happened to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backend.settings import Settings


class Witness:
    def __init__(self, store: str, settings: Settings, engine: Any) -> None:
        self._file: Path = settings.home / "witness.txt"
        self._engine = engine

    def _say(self, word: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(word + "\n")

    def start(self) -> None:
        self._say("start")

    def wake(self) -> None:
        self._say("wake")

    def close(self) -> None:
        self._say("close")
