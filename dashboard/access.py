"""Who may reach the dashboard: one ASGI middleware in front of Gradio, static files and our own routes alike.

Knows nothing of pages. It checks, in this order: the Host header (against DNS rebinding), the Origin (against other web
pages), and, where a password or token is set, a session cookie or a Bearer token. Websockets pass the same checks.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.errors import HeadwayError
from dashboard.sessions import Secrets, Sessions, Throttle, login_page

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
WILDCARD = frozenset({"0.0.0.0", "::", ""})
COOKIE = "headway_session"
LOGIN = "/headway/login"
LOGOUT = "/headway/logout"
MAX_FORM_BYTES = 4096
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)


@dataclass(frozen=True)
class AccessPolicy:
    """The rules for one address that is listened on; build it with `for_bind`.

    Args:
        host: the address listened on.
        secrets: what a visitor may prove himself with; None means no login (this machine only).
        allowed_hosts: further names that may stand in the Host header, as behind a proxy.
    """

    host: str
    secrets: Secrets | None = None
    allowed_hosts: frozenset[str] = frozenset()
    sessions: Sessions = field(default_factory=Sessions)
    throttle: Throttle = field(default_factory=Throttle)

    @classmethod
    def for_bind(
        cls,
        host: str = "127.0.0.1",
        password: str | None = None,
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
    ) -> AccessPolicy:
        """Raises HeadwayError when other machines could connect and nothing is asked of them."""
        if host not in LOOPBACK and not (password or token):
            raise HeadwayError(
                f"Listening on {host or 'all addresses'} lets other machines in: set a password or a token, "
                "or listen on 127.0.0.1."
            )
        secrets = Secrets(password, token) if password or token else None
        return cls(host, secrets, frozenset(name.lower() for name in allowed_hosts))

    def link_token(self) -> str | None:
        """A fresh token that logs in once by `?token=`; None when no login is needed."""
        return self.secrets.new_link_token() if self.secrets else None

    def accepts_host(self, header: str) -> bool:
        """Whether the Host header names this server. An address cannot be rebound, a name can."""
        name = _hostname(header)
        if name is None:
            return False
        if name in LOOPBACK or name in self.allowed_hosts or (name == self.host.lower() and name not in WILDCARD):
            return True
        return self.host in WILDCARD and (_is_address(name) or name == socket.gethostname().lower())


def _hostname(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def same_origin(scope: Scope, headers: Headers) -> bool:
    """False for a request that another web page caused; following a link to us is allowed.

    Scripts send neither Origin nor Sec-Fetch-Site and pass: they carry no cookie of a visitor.
    """
    origin = headers.get("origin")
    if origin is not None:
        try:
            return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
        except ValueError:
            return False
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin"):
        return True
    return scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"


class AccessGuard:
    """The middleware. `policy` is shared with whoever prints the login link."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self.app = app
        self.policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        response = self._refusal(scope, headers)
        if response is None and scope["type"] == "http":
            response = await self._own_page(scope, headers, receive)
        if response is None and not self._known(scope, headers):
            response = self._ask_to_log_in(scope, headers)
        if response is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await response(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not self.policy.accepts_host(headers.get("host", "")):
            return _sentence(403, "This server does not answer to that host name; start it with the name to allow it.")
        if not same_origin(scope, headers):
            return _sentence(403, "Requests from other web pages are refused.")
        return None

    def _known(self, scope: Scope, headers: Headers) -> bool:
        secrets = self.policy.secrets
        if secrets is None:
            return True
        if self.policy.sessions.valid(_cookie(headers)):
            return True
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return False
        return self.policy.throttle.attempt(_client(scope), lambda: secrets.accepts(value.strip())) is True

    async def _own_page(self, scope: Scope, headers: Headers, receive: Receive) -> Response | None:
        """The answers this middleware gives itself: login, logout, the link with a token."""
        secrets = self.policy.secrets
        if secrets is None:
            return RedirectResponse("/", 303) if scope["path"] in (LOGIN, LOGOUT) else None
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if scope["path"] == LOGIN:
            target = _local_path(query.get("next", "/"))
            return await self._log_in(scope, receive, target) if scope["method"] == "POST" else login_page(target)
        if scope["path"] == LOGOUT and scope["method"] == "POST":
            self.policy.sessions.drop(_cookie(headers))
            response = RedirectResponse(LOGIN, 303)
            response.delete_cookie(COOKIE)
            return response
        if scope["method"] == "GET" and "token" in query and not self._known(scope, headers):
            token = query.pop("token")
            if self.policy.throttle.attempt(_client(scope), lambda: secrets.spend_link_token(token)) is True:
                rest = f"?{urlencode(query)}" if query else ""
                return self._welcome(scope, _local_path(scope["path"]) + rest)
        return None

    async def _log_in(self, scope: Scope, receive: Receive, target: str) -> Response:
        secrets = self.policy.secrets
        assert secrets is not None
        form = dict(parse_qsl((await _body(receive)).decode("utf-8", "replace")))
        outcome = self.policy.throttle.attempt(_client(scope), lambda: secrets.accepts(form.get("password", "")))
        if outcome is None:
            return login_page(target, "Too many attempts: wait a moment and try again.", 429)
        if not outcome:
            return login_page(target, "That is not the password.", 401)
        return self._welcome(scope, target)

    def _welcome(self, scope: Scope, target: str) -> Response:
        response = RedirectResponse(target, 303)
        secure = scope.get("scheme") == "https"
        response.set_cookie(COOKIE, self.policy.sessions.start(), httponly=True, samesite="strict", secure=secure)
        return response

    def _ask_to_log_in(self, scope: Scope, headers: Headers) -> Response:
        wants_page = scope.get("method") == "GET" and "text/html" in headers.get("accept", "")
        if wants_page:
            return RedirectResponse(f"{LOGIN}?next={quote(_local_path(scope['path']))}", 303)
        response = _sentence(401, "Log in first, or send the token as a Bearer token.")
        response.headers["www-authenticate"] = "Bearer"
        return response


def _sentence(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _cookie(headers: Headers) -> str:
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _client(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else "unknown"


def _local_path(path: str) -> str:
    """The path if it stays on this server, else the front page (an open redirect would help a phisher)."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain else "/"


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) <= MAX_FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:MAX_FORM_BYTES]


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
        await send(message)

    return wrapped
