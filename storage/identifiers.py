"""Names of stored things: short ids that sort by time for runs and jobs, hashes of their identity for all else.

Knows nothing of the database.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread; sorts like the numbers
_lock = threading.Lock()
_last_ms = 0


def new_id(now_ms: int | None = None) -> str:
    """13 characters: 9 of milliseconds since 1970, 4 random. Later ids of one process sort after earlier ones."""
    global _last_ms
    with _lock:
        wanted = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        _last_ms = max(wanted, _last_ms + 1)  # also when the clock is set back
        stamp = _last_ms
    return _base32(stamp, 9) + "".join(secrets.choice(_ALPHABET) for _ in range(4))


def time_of(made: str) -> int:
    """When `new_id` made this id, in milliseconds since 1970."""
    number = 0
    for letter in made[:9]:
        number = number << 5 | _ALPHABET.index(letter)
    return number


def identity_hash(*parts: str | None) -> str:
    """16 hexadecimal characters (64 bits) of SHA-256 over the parts; None differs from the empty string."""
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:16]


def _base32(number: int, width: int) -> str:
    digits = [_ALPHABET[number >> shift & 31] for shift in range(5 * (width - 1), -1, -5)]
    return "".join(digits)
