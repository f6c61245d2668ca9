"""The other end of show_mask: asks the small tokenizer process for a row, starts it when it is needed and lets it go
when nobody has asked for a while. Torch-free; knows no page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from backend.errors import HeadwayError
from backend.settings import Settings

IDLE_S = 300.0
KEPT = 64
_ROOT = Path(__file__).resolve().parents[2]
_Key = tuple[str, str, int, int, int]


class MaskHelper:
    """One process, asked by one thread at a time; replies are kept by file content (size and time) and row.

    `settings`: places the process is told; `idle_s`: after so long without a question it is ended.
    """

    def __init__(self, settings: Settings, idle_s: float = IDLE_S) -> None:
        self._settings = settings
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[str]] = []  # one or none
        weakref.finalize(self, _end, self._running)  # also when the program ends
        self._timer: threading.Timer | None = None
        self._kept: OrderedDict[_Key, dict[str, Any]] = OrderedDict()

    def mask(self, target: str, path: Path, number: int) -> dict[str, Any]:
        """The `number`-th usable row of the file (from 1) as ShownMask's fields. Raises HeadwayError."""
        try:
            stat = path.stat()
        except OSError as error:
            raise HeadwayError(f"Cannot read {path}: {error.strerror or error}.") from None
        key = (target, str(path), number, stat.st_size, stat.st_mtime_ns)
        with self._lock:
            if key not in self._kept:
                reply = self._ask({"target": target, "path": str(path), "number": number})
                if "error" in reply:
                    raise HeadwayError(str(reply["error"]))
                self._kept[key] = reply["mask"]
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def close(self) -> None:
        """End the process. The next question starts another."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            _end(self._running)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Under the lock. A process that died since the last question is replaced once."""
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(2):
            line = self._line(json.dumps(request) + "\n")
            if line:
                self._timer = threading.Timer(self._idle_s, self.close)
                self._timer.daemon = True
                self._timer.start()
                reply: dict[str, Any] = json.loads(line)
                return reply
            _end(self._running)
        raise HeadwayError("The process that reads tokenizers could not be started; Headway's log says why.")

    def _line(self, request: str) -> str:
        """The reply to a request line; empty when the process has died."""
        if not self._running:
            self._running.append(self._started())
        process = self._running[0]
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return ""

    def _started(self) -> subprocess.Popen[str]:
        places = ["--home", str(self._settings.home), "--cache", str(self._settings.cache)]
        return subprocess.Popen(
            [sys.executable, "-m", "backend.jobs.show_mask", *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=_ROOT,
        )


def _end(running: list[subprocess.Popen[str]]) -> None:
    """Close the process's input, which ends it, and wait."""
    while running:
        process = running.pop()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a request that a dead process never read
                    pipe.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
