"""Passwords, tokens, sessions and the brake on guessing, in memory. Knows no request; `access` calls it.

A restart ends all sessions. Only hashes of session ids are kept, and every comparison takes constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets as random
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from starlette.responses import HTMLResponse

SESSION_S = 12 * 3600.0
MAX_SESSIONS = 10_000
LOGIN_TEMPLATE = Path(__file__).parent / "login.html"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Secrets:
    """The password and the token, as hashes; and link tokens that work once."""

    def __init__(self, password: str | None = None, token: str | None = None) -> None:
        self._accepted = [_digest(text) for text in (password, token) if text]
        self._links = {_digest(token)} if token else set()

    def accepts(self, offered: str) -> bool:
        digest = _digest(offered)
        # A list, not a generator: all are compared, so the time does not tell which one matched.
        return any([hmac.compare_digest(digest, known) for known in self._accepted])

    def new_link_token(self) -> str:
        token = random.token_urlsafe(24)
        self._links.add(_digest(token))
        return token

    def spend_link_token(self, offered: str) -> bool:
        """True once for each link token. URLs end up in histories and logs, so they may not stay keys."""
        digest = _digest(offered)
        found = [known for known in self._links if hmac.compare_digest(digest, known)]
        self._links.difference_update(found)
        return bool(found)


class Sessions:
    """Who is logged in. `clock` gives seconds and is replaced in tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expiry: dict[bytes, float] = {}

    def start(self) -> str:
        now = self._clock()
        self._expiry = {key: end for key, end in self._expiry.items() if end > now}
        while len(self._expiry) >= MAX_SESSIONS:
            del self._expiry[next(iter(self._expiry))]
        session = random.token_urlsafe(32)
        self._expiry[_digest(session)] = now + SESSION_S
        return session

    def valid(self, session: str) -> bool:
        # Looked up by hash: the time of a dictionary look-up tells nothing about the id itself.
        return bool(session) and self._expiry.get(_digest(session), 0.0) > self._clock()

    def drop(self, session: str) -> None:
        self._expiry.pop(_digest(session), None)


class Throttle:
    """Slows guessing: after n failures an address waits 2^(n-1) half seconds, at most 30 s, before its next attempt
    counts.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, max_wait_s: float = 30.0, max_addresses: int = 10_000
    ) -> None:
        self._clock = clock
        self._max_wait_s = max_wait_s
        self._max_addresses = max_addresses
        self._failures: dict[str, tuple[int, float]] = {}

    def attempt(self, address: str, check: Callable[[], bool]) -> bool | None:
        """What `check` says, or None when the address has to wait (then nothing is checked)."""
        count, not_before = self._failures.get(address, (0, 0.0))
        now = self._clock()
        if now < not_before:
            return None
        if check():
            self._failures.pop(address, None)
            return True
        if len(self._failures) >= self._max_addresses:
            del self._failures[next(iter(self._failures))]
        wait = min(0.5 * 2.0 ** min(count, 10), self._max_wait_s)
        self._failures[address] = (count + 1, now + wait)
        return False


def login_page(target: str, problem: str = "", status: int = 200) -> HTMLResponse:
    """The form. `target` is the local path to go to afterwards."""
    page = LOGIN_TEMPLATE.read_text(encoding="utf-8")
    page = page.replace("[[action]]", html.escape(f"/headway/login?next={quote(target)}"))
    return HTMLResponse(page.replace("[[problem]]", html.escape(problem)), status, {"cache-control": "no-store"})
