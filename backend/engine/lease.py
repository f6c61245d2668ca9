"""The device lease: at most one program of this machine works on a device at a time, and everybody can read who.

A locked file in Headway's home folder, released by the operating system when its holder dies; beside it a JSON file
that names the holder for people, believed only while its process lives. Whoever can't get the lease may go on, but then
its numbers are *contended* and feed no recommendation. Knows no engine and no job.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from backend.errors import Cancelled, HeadwayError
from storage.owner import owner_is_alive, owner_token

try:
    import fcntl
except ImportError:  # Windows has no such locks: every measurement there counts as contended
    fcntl = None  # type: ignore[assignment]

Taken = Literal["held", "busy", "unavailable"]
POLL_S = 0.2
SOMEBODY = "another program"


@dataclass(frozen=True)
class Holder:
    """Who has a device.

    Args:
        who: what it does, to be read after "busy:", such as "training small-heads".
        kind: engine (a prompt is decoded, over soon), job, or command.
        job: the job's id, if it is one.
        since: seconds since 1970, to be shown; nothing is decided by it.
        owner: the token of its process, see storage.owner.
    """

    who: str
    kind: str
    job: str | None
    since: float
    owner: str
    pid: int


class Hold:
    """A device, or several, held. `alone` is False where there are no locks, so that nothing is promised."""

    def __init__(self, lockers: Sequence[_Lock], alone: bool) -> None:
        self._lockers, self.alone = lockers, alone

    def describe(self, who: str) -> None:
        """Say anew what the device is used for, say with the time left."""
        for locker in self._lockers:
            locker.rename(who)


class _Lock:
    """One device's lock file, with its holder's name beside it."""

    def __init__(self, home: Path, device: str, holder: Holder) -> None:
        self._path, self._holder = _file(home, device), holder
        self._handle: int | None = None

    def take(self) -> Taken:
        if fcntl is None:
            return "unavailable"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return "unavailable"  # a home that can't be written to can't promise anything either
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            return "busy" if isinstance(error, BlockingIOError) else "unavailable"  # a file system without locks
        self._handle = handle
        self._write()
        return "held"

    def rename(self, who: str) -> None:
        self._holder = replace(self._holder, who=who)
        if self._handle is not None:
            self._write()

    def release(self) -> None:
        if self._handle is None:
            return
        with suppress(OSError):
            _named(self._path).unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None

    def _write(self) -> None:
        unfinished = self._path.with_suffix(f".{os.getpid()}.new")
        with suppress(OSError):  # the lock counts, the name is only for people
            unfinished.write_text(json.dumps(asdict(self._holder)), encoding="utf-8")
            os.replace(unfinished, _named(self._path))


@contextmanager
def try_lease(home: Path, device: str, who: str, kind: str, job: str | None = None) -> Iterator[Taken]:
    """Hold the lease of a device while open; yields "held", or why it is not: "busy" or "unavailable"."""
    lock = _Lock(home, device, _holder(who, kind, job))
    try:
        yield lock.take()
    finally:
        lock.release()


@contextmanager
def device_lease(home: Path, device: str, who: str = SOMEBODY, kind: str = "command") -> Iterator[bool]:
    """Hold the lease of a device while open; yields False when somebody else holds it (then nothing is held)."""
    with try_lease(home, device, who, kind) as taken:
        yield taken == "held"


@contextmanager
def hold_device(
    home: Path,
    device: str | Sequence[str],
    who: str,
    *,
    kind: str = "command",
    job: str | None = None,
    wait: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Iterator[Hold]:
    """Hold the lease of one device or several, waiting until whoever has them is done.

    Args:
        wait: seconds to wait at most; None waits as long as it takes, 0 asks once.
        cancelled: asked now and then while waiting; True raises Cancelled.
        waiting: told once for each new holder whom it is waited for.

    Raises HeadwayError naming the holder when the time is up.
    """
    devices = [device] if isinstance(device, str) else device
    locks = [_Lock(home, one, _holder(who, kind, job)) for one in devices]
    give_up = None if wait is None else time.monotonic() + wait
    with ExitStack() as stack:
        alone = True
        # In one order everywhere, so that two programs that want the same devices never wait for each other.
        for one, lock in sorted(zip(devices, locks, strict=True), key=lambda pair: one_name(pair[0])):
            stack.callback(lock.release)
            alone &= _patiently(home, one, lock, give_up, cancelled, waiting)
        yield Hold(locks, alone)


def _patiently(
    home: Path,
    device: str,
    lock: _Lock,
    give_up: float | None,
    cancelled: Callable[[], bool],
    waiting: Callable[[str], None],
) -> bool:
    """Whether the lock is held in the end; False only where there are no locks."""
    told: str | None = None
    while (taken := lock.take()) == "busy":
        holder = holder_of(home, device)
        who = holder.who if holder else SOMEBODY
        if cancelled():
            raise Cancelled(f"Stopped while waiting for {device}, which is busy: {who}.")
        if give_up is not None and time.monotonic() >= give_up:
            raise HeadwayError(f"The device {device} is busy: {who}; wait until that is done, or stop it.")
        if who != told:
            waiting(who)
            told = who
        time.sleep(POLL_S)
    return taken == "held"


def holder_of(home: Path, device: str) -> Holder | None:
    """Who has the device now; None when nobody has, or nobody who says so."""
    try:
        data = json.loads(_named(_file(home, device)).read_text(encoding="utf-8"))
        holder = Holder(**data)
    except (OSError, ValueError, TypeError):
        return None
    return holder if owner_is_alive(holder.owner) else None


def one_name(device: str) -> str:
    """One name a device: "cuda" is the first one."""
    return "cuda:0" if device == "cuda" else device


def _holder(who: str, kind: str, job: str | None) -> Holder:
    return Holder(who, kind, job, time.time(), owner_token(), os.getpid())


def _file(home: Path, device: str) -> Path:
    return home / "leases" / f"{one_name(device).replace(':', '-')}.lock"


def _named(lock: Path) -> Path:
    return lock.with_suffix(".json")
