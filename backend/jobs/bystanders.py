"""How busy other programs kept the processors while something was measured. Knows clocks of the operating system."""

from __future__ import annotations

import psutil


class Bystanders:
    """`share()` tells the part of all processors that others used since the last call (or since it was made)."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._last = self._read()

    def share(self) -> float | None:
        """0 to 1; None when too little time went by for the system's coarse clocks."""
        before, self._last = self._last, self._read()
        own, busy, whole = (now - then for now, then in zip(self._last, before, strict=True))
        if whole < 0.5:
            return None
        return round(min(1.0, max(0.0, (busy - own) / whole)), 3)

    def _read(self) -> tuple[float, float, float]:
        """Seconds: of this process, of all programs, of all processors."""
        own, system = self._own.cpu_times(), psutil.cpu_times()
        idle = system.idle + getattr(system, "iowait", 0.0)
        # Linux counts guests' time twice, in `user` and in `guest`.
        whole = sum(system) - getattr(system, "guest", 0.0) - getattr(system, "guest_nice", 0.0)
        return own.user + own.system, whole - idle, whole
