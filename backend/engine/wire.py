"""How two processes of Headway talk: JSON messages over an authenticated local connection, one connection a call.

A caller sends {"call": name, "arguments": {...}} and gets {"value": ...}, or {"error": {"kind", "sentence"}}, or for a
stream {"open": true}, then {"items": [...]} as they come, then {"end": true}. Never pickle: whoever gets hold of the
connection can ask for what the engine offers and nothing else. Knows no engine.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge, wait
from pathlib import Path
from typing import Any, Final

from backend.errors import Cancelled, HeadwayError, MismatchError
from storage.errors import NotFoundError, StoreError, UnavailableError

MAX_REQUEST_BYTES: Final = 64 << 20  #: a prompt file pasted into a form is smaller
BROKEN: Final = (EOFError, OSError, AuthenticationError)  #: how a connection says that the other side is gone
KINDS: Final[Mapping[str, Callable[[str], Exception]]] = {
    kind.__name__: kind
    for kind in (HeadwayError, MismatchError, Cancelled, StoreError, NotFoundError, UnavailableError, ValueError)
}


@dataclass(frozen=True)
class Address:
    """Where a process listens: the path of a socket, or (host, port) on this machine where there are no such sockets.

    `key` proves to each side that the other one may talk; it never stands on a command line.
    """

    place: str | tuple[str, int]
    key: bytes

    def to_dict(self) -> dict[str, Any]:
        return {"place": self.place, "key": self.key.hex()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Address:
        """Raises ValueError, TypeError or KeyError for what `to_dict` did not make."""
        place = data["place"]
        return cls(place if isinstance(place, str) else (str(place[0]), int(place[1])), bytes.fromhex(data["key"]))


class Door:
    """Listens for callers of one process; a Unix socket in a folder only its owner can enter, else a local port."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._folder: str | None = None
        if hasattr(socket, "AF_UNIX"):
            self._folder = tempfile.mkdtemp(prefix="headway-")  # short: a socket's path may have some 100 characters
            self._listener = Listener(os.path.join(self._folder, "engine"), "AF_UNIX", backlog=64)
        else:
            self._listener = Listener(("127.0.0.1", 0), "AF_INET", backlog=64)
        self.address = Address(self._listener.address, key)

    def accept(self) -> Connection:
        """The next caller, not yet known to have the key: see `admit`. Raises OSError once closed."""
        return self._listener.accept()

    def admit(self, connection: Connection) -> bool:
        """Whether the caller has the key. May wait for a slow one, so it belongs in the caller's own thread."""
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
        except (*BROKEN, AssertionError, ValueError):
            return False
        return True

    def knock(self) -> None:
        """Wakes whoever waits in `accept`."""
        with suppress(OSError):
            Client(self.address.place).close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.close()
        if self._folder is not None:
            remove_place(os.path.join(self._folder, "engine"))


def remove_place(place: str | tuple[str, int]) -> None:
    """Removes what a listener leaves behind that could not close."""
    if isinstance(place, str):
        with suppress(OSError):
            Path(place).unlink(missing_ok=True)
        with suppress(OSError):
            Path(place).parent.rmdir()


def connect(address: Address) -> Connection:
    """Raises one of BROKEN when nobody is there, or somebody else."""
    try:
        return Client(address.place, authkey=address.key)
    except AssertionError as error:  # not a challenge: something else listens there now
        raise ConnectionRefusedError("nobody that speaks this language") from error


def send(connection: Connection, message: Mapping[str, Any]) -> None:
    """ASCII, so that lone surrogates and NUL in a prompt come through as they are."""
    connection.send_bytes(json.dumps(message, separators=(",", ":")).encode("ascii"))


def receive(connection: Connection, limit: int | None = None) -> dict[str, Any]:
    """Raises OSError for a message over the limit, EOFError when the other side is gone, ValueError for no JSON."""
    message = json.loads(connection.recv_bytes(limit))
    if not isinstance(message, dict):
        raise ValueError("a message is an object")
    return message


def is_gone(connection: Connection) -> bool:
    """Whether the caller has hung up: callers say nothing after their question."""
    return bool(wait([connection], 0))


def error_message(error: Exception) -> dict[str, Any]:
    """The reply for an error: a person's own as it is, a fault of ours as a fault."""
    for kind in type(error).__mro__:
        if kind.__name__ in KINDS and kind is not ValueError:
            return {"error": {"kind": kind.__name__, "sentence": str(error)}}
    if type(error) is ValueError:
        return {"error": {"kind": "ValueError", "sentence": str(error)}}
    return {"error": {"kind": "", "sentence": f"{type(error).__name__}: {str(error)[:200]}"}}


def raised(error: Mapping[str, Any]) -> Exception:
    """The exception behind an error reply."""
    kind, sentence = KINDS.get(str(error.get("kind"))), str(error.get("sentence"))
    return kind(sentence) if kind else RuntimeError(f"The engine failed inside ({sentence}); see its log.")
