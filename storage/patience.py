"""Calling the store again while it is out of reach: a server that restarts, a disk that comes back, a long writer.

Knows nothing of what is called. Waits by a monotonic clock, so that setting the wall clock changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from storage.errors import UnavailableError

_T = TypeVar("_T")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


def retrying(
    call: Callable[[], _T],
    *,
    patience_s: float,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> _T:
    """What `call` returns, tried again while it raises UnavailableError, for `patience_s` seconds from the first try.

    The call must be one that may be made twice: a change whose answer was lost on the way may have been stored. Writes
    of metrics and items by step and key are such. All other errors, and the last UnavailableError, are raised.
    """
    deadline, pause = clock() + patience_s, _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except UnavailableError:
            left = deadline - clock()
            if left <= 0:
                raise
        sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)
