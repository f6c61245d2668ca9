"""A clock for waiting that a jump can't mislead: of a leap it counts a little, of a step back nothing.

Even a monotonic clock leaps where the system lets it run on through a sleep, and one that a test or a virtual machine
sets back would keep a dead worker alive until it has caught up. Knows nothing of what is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

MOST_S = 10.0  #: counted between two readings; whoever waits reads far more often


class SteadyClock:
    """Seconds since it was made, as `clock` tells them. Thread safe."""

    def __init__(self, clock: Callable[[], float], most_s: float = MOST_S) -> None:
        self._clock, self._most_s = clock, most_s
        self._before, self._passed = clock(), 0.0
        self._reading = threading.Lock()

    def __call__(self) -> float:
        with self._reading:
            now = self._clock()
            self._passed += min(max(0.0, now - self._before), self._most_s)
            self._before = now
            return self._passed
