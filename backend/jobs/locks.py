"""One process at a time: locks that the operating system lets go of when their holder dies.

A lock is a small file, removed by whoever held it last; its text names the holder (storage/owner.py). Knows no job.
Where the system has no such locks (Windows), the store's own rule, one open job an output, is all there is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backend.errors import Cancelled, HeadwayError
from storage.owner import owner_is_alive, owner_token

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

PAUSE_S = 0.1


@contextmanager
def only_one(
    path: Path,
    what: str,
    *,
    patience_s: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
    replaces: bool = False,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Hold the lock file `path` while open.

    Args:
        what: what the lock is for, as the subject of the sentence when somebody else has it.
        patience_s: how long to wait for the other one.
        replaces: the holder is an older attempt at the same work: end it, where it is a process of this machine.

    Raises HeadwayError when another process holds it, Cancelled when asked to stop while waiting.
    """
    if fcntl is None:
        yield
        return
    left = patience_s
    while (handle := _take(path)) is None:
        if should_stop():
            raise Cancelled(f"Stopped while waiting for another process that uses {what}.")
        if replaces:
            end_process(_holder(path))
            replaces, left = False, max(left, 10.0)
        if left <= 0:
            raise HeadwayError(f"Another process is writing to {what}; wait until it is done, or choose another place.")
        sleep(PAUSE_S)
        left -= PAUSE_S
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: nobody can have locked this very file meanwhile
        os.close(handle)


def end_process(token: str | None) -> bool:
    """Kill the process of an owner token where it is one of this machine and still the same; whether it was."""
    parts = (token or "").rsplit("/", 2)
    own = owner_token().rsplit("/", 2)
    if token is None or len(parts) != 3 or parts[0] != own[0] or parts[1] == own[1] or parts[2] == "unknown":
        return False
    if not parts[1].isdigit() or not owner_is_alive(token):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(int(parts[1]), signal.SIGKILL)
        return True
    return False


def _take(path: Path) -> int | None:
    """An open, locked file, or None when somebody else has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise HeadwayError(f"{path.parent} can't be written to: {error.strerror}.") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last holder may have removed the file between our opening and locking it; then it is nobody's.
        if os.fstat(handle).st_ino != os.stat(path).st_ino:
            raise FileNotFoundError
        os.truncate(handle, 0)
        os.write(handle, owner_token().encode())
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        return None
    return handle


def _holder(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") or None
    except OSError:
        return None
