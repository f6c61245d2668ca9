"""Where the time of a step goes, without slowing the step down.

On a CPU a mark is a reading of the clock. On CUDA work is queued, so a mark is an event in the queue and the times are
read after the step's one copy to the host has waited for it anyway. Knows nothing of what is timed.
"""

from __future__ import annotations

import time
from typing import Any

import torch


class Stopwatch:
    """Marks in one step, read as milliseconds between neighbours."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []

    def restart(self) -> None:
        self._marks = []
        self.mark()

    def mark(self) -> None:
        """The part that ran since the last mark is over (on CUDA: will be, in queue order)."""
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def parts_ms(self) -> list[float]:
        """Milliseconds between successive marks; on CUDA only after the host has waited for the device."""
        pairs = zip(self._marks, self._marks[1:], strict=False)
        if self._cuda:
            self._marks[-1].synchronize()  # nothing is queued before it any more, but it may not have been reached
            return [float(a.elapsed_time(b)) for a, b in pairs]
        return [1000 * (b - a) for a, b in pairs]


def now_ms() -> float:
    return 1000 * time.perf_counter()
