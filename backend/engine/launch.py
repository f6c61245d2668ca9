"""What an engine's process is started with, and where the one of a home folder is to be found.

There is one engine a home, database and device: its process holds a locked file for as long as it lives, and writes its
address with a key beside it, readable by this user alone, so that a second dashboard joins it instead of loading
everything twice. Knows files; no engine and no process.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from backend.engine.wire import Address
from backend.settings import Settings
from storage.owner import owner_is_alive, owner_token

try:
    import fcntl
except ImportError:  # Windows: every dashboard has an engine of its own there
    fcntl = None  # type: ignore[assignment]

LANGUAGE = 2  #: of the wire; an engine that speaks another one is not joined


@dataclass(frozen=True)
class Launch:
    """What determines an engine.

    Args:
        home, cache: the places of backend.settings.
        store: URL or absolute path of the database.
        device, dtype, trust_remote_code: how targets are loaded; None is the best there is.
        beside: "module:name" of what runs beside the engine and is given (store, settings, engine), such as the
            supervisor of jobs; it has start(), wake() and close().
    """

    home: str
    cache: str
    store: str
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    beside: str | None = None

    @property
    def settings(self) -> Settings:
        return Settings(home=Path(self.home), cache=Path(self.cache))

    @property
    def name(self) -> str:
        """The same for two launches whose engines could stand in for each other."""
        text = json.dumps([LANGUAGE, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(**data)


@contextmanager
def claim(launch: Launch) -> Iterator[bool]:
    """Be the engine of this launch while open; yields False when another process is.

    Where nothing can be locked every process may be one.
    """
    if fcntl is None:
        yield True
        return
    path = _file(launch, ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield True
        return
    try:
        yield _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


@contextmanager
def published(launch: Launch, address: Address) -> Iterator[None]:
    """Other dashboards of this user find the engine while open."""
    path = _file(launch, ".json")
    text = json.dumps(address.to_dict() | {"owner": owner_token()})
    unfinished = path.with_suffix(f".{os.getpid()}.new")
    with suppress(OSError):  # then nobody joins, and this dashboard works all the same
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, path)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == text:
                path.unlink()


def find(launch: Launch) -> Address | None:
    """Where the running engine of this launch listens; None when there is none, or it isn't this user's."""
    path = _file(launch, ".json")
    try:
        if hasattr(os, "getuid"):
            status = path.stat()
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
                return None  # somebody else may have put it there to be talked to
        data = json.loads(path.read_text(encoding="utf-8"))
        return Address.from_dict(data) if owner_is_alive(data["owner"]) else None
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None


def _file(launch: Launch, suffix: str) -> Path:
    return Path(launch.home) / "engine" / f"{launch.name}{suffix}"
