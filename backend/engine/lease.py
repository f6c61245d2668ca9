"""The device lease: at most one program of this machine measures on a device at a time.

A locked file in Headway's home folder, released by the operating system when its holder dies. Whoever can't get it may
go on, but then its numbers are *contended* and feed no recommendation. Knows no engine and no job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: every measurement there counts as contended
    fcntl = None  # type: ignore[assignment]


@contextmanager
def device_lease(home: Path, device: str) -> Iterator[bool]:
    """Hold the lease of a device while open; yields False when somebody else holds it (then nothing is held)."""
    if fcntl is None:
        yield False
        return
    folder = home / "leases"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / f"{device.replace(':', '-')}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield False  # a home that can't be written to can't promise anything either
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        yield held
    finally:
        os.close(handle)
