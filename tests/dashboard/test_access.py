"""Nobody gets in who should not: every route of the whole app is tried, Gradio's too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from backend.errors import HeadwayError
from dashboard.access import COOKIE, AccessGuard, AccessPolicy
from dashboard.sessions import Sessions, Throttle
from tests.dashboard.aside import run

Build = Callable[..., FastAPI]
BASE = "http://testserver.local:7860"
OUTSIDE = {"host": "0.0.0.0", "password": "pass word", "token": "tok-en", "allowed_hosts": ["testserver.local"]}


@pytest.fixture(scope="module")
def guarded(dashboard: Build) -> FastAPI:
    """Shared: building Gradio's pages takes seconds. Tests bring their own policy with `fresh`."""
    return dashboard(AccessPolicy.for_bind(**OUTSIDE))


@pytest.fixture
def policy(guarded: FastAPI, monkeypatch: pytest.MonkeyPatch) -> AccessPolicy:
    """A policy nobody has used yet, in front of the shared app."""
    fresh = AccessPolicy.for_bind(**OUTSIDE)
    monkeypatch.setitem(guarded.user_middleware[0].kwargs, "policy", fresh)
    monkeypatch.setattr(guarded, "middleware_stack", None)
    return fresh


@pytest.fixture
def client(guarded: FastAPI, policy: AccessPolicy) -> Iterator[Ask]:
    yield Ask(guarded)


class Ask:
    """Requests without a server; keeps cookies like a browser, follows no redirect."""

    def __init__(self, app: Any, base: str = BASE, address: str = "10.0.0.7") -> None:
        self._transport = httpx.ASGITransport(app, client=(address, 1), raise_app_exceptions=False)
        self._base = base
        self.cookies = httpx.Cookies()

    def __call__(self, method: str, path: str, **rest: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url=self._base, cookies=self.cookies, timeout=20
            ) as client:
                answer = await client.request(method, path, **rest)
                self.cookies = client.cookies
                return answer

        return run(ask)


def all_routes(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(method, path) of everything that is mounted anywhere; path parameters filled in."""
    for route in routes:
        path = prefix + re.sub(r"\{[^}]*\}", "x", getattr(route, "path", ""))
        nested = (route, getattr(route, "app", None), getattr(route, "original_router", None))  # mounted, included
        inner = next((part.routes for part in nested if getattr(part, "routes", None)), None)
        if inner:
            yield from all_routes(inner, path.rstrip("/"))
        else:
            for method in getattr(route, "methods", None) or {"GET"}:
                yield method, path or "/"


def test_every_route_asks_for_a_login(guarded: FastAPI, client: Ask) -> None:
    routes = sorted(set(all_routes(guarded.routes)))
    paths = {path for _, path in routes}
    assert len(routes) > 40, "the walk has to reach Gradio's own routes"
    assert any(path.startswith("/gradio_api/") for path in paths) and "/headway/status" in paths
    assert {"/live", "/runs", "/headway/events", "/headway/jobs/x/events", "/headway/table/x"} <= paths
    for method, path in routes:
        answer = client(method, path, headers={"accept": "application/json"})
        assert answer.status_code == 401, (method, path, answer.status_code)
        page = client("GET", path, headers={"accept": "text/html"})
        assert page.status_code == 303 and page.headers["location"].startswith("/headway/login?next="), path


def test_what_does_not_exist_is_not_told_from_what_does(client: Ask) -> None:
    assert client("GET", "/nothing/here").status_code == 401
    assert client("PROPFIND", "/").status_code == 401


def test_websockets_are_refused_too(guarded: FastAPI, policy: AccessPolicy) -> None:
    sent: list[Any] = []

    async def talk() -> None:
        scope = {
            "type": "websocket",
            "path": "/gradio_api/queue/join",
            "query_string": b"",
            "headers": [(b"host", b"testserver.local")],
            "client": ("10.0.0.7", 1),
            "subprotocols": [],
        }

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await guarded(scope, receive, send)

    run(talk)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_login_form_sets_a_strict_cookie_that_opens_the_page(client: Ask) -> None:
    form = client("GET", "/headway/login?next=/%3Frun%3Dr1")
    assert form.status_code == 200 and "/headway/login?next=/%3Frun%3Dr1" in form.text
    assert client("POST", "/headway/login", data={"password": "wrong"}, headers={"origin": BASE}).status_code == 401
    other = Ask(client._transport.app, address="10.0.0.8")
    answer = other("POST", "/headway/login?next=/%3Frun%3Dr1", data={"password": "pass word"}, headers={"origin": BASE})
    assert answer.status_code == 303 and answer.headers["location"] == "/?run=r1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert other("GET", "/headway/status").status_code == 200
    assert other("POST", "/headway/logout", headers={"origin": BASE}).status_code == 303
    other.cookies.set(COOKIE, cookie.split("=")[1].split(";")[0])
    assert other("GET", "/headway/status").status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/x\r\nset-cookie:a=b"]
)
def test_the_login_leads_to_no_other_server(client: Ask, target: str) -> None:
    answer = client("POST", "/headway/login", params={"next": target}, data={"password": "pass word"})
    assert answer.status_code == 303 and answer.headers["location"] == "/"


def test_a_link_token_works_once_and_leaves_the_address(client: Ask, policy: AccessPolicy) -> None:
    token = policy.link_token()
    answer = client("GET", f"/?run=r1&token={token}")
    assert (
        answer.status_code == 303
        and answer.headers["location"] == "/?run=r1"
        and token not in answer.headers["location"]
    )
    assert client("GET", "/headway/status").status_code == 200
    again = Ask(client._transport.app, address="10.0.0.9")
    assert again("GET", f"/?token={token}").status_code == 401
    assert Ask(client._transport.app, address="10.0.0.10")("GET", "/?token=guess").status_code == 401


def test_scripts_send_a_bearer_token(client: Ask) -> None:
    assert client("GET", "/headway/status", headers={"authorization": "Bearer tok-en"}).status_code == 200
    for header in ("Bearer wrong", "Basic tok-en", "Bearer", "Bearer é".encode()):
        other = Ask(client._transport.app, address=f"10.1.0.{len(header)}")
        assert other("GET", "/headway/status", headers={"authorization": header}).status_code == 401


def test_guessing_is_slowed(client: Ask) -> None:
    codes = [client("POST", "/headway/login", data={"password": f"guess {n}"}).status_code for n in range(3)]
    assert codes == [401, 429, 429]
    assert (
        client("POST", "/headway/login", data={"password": "pass word"}).status_code == 429
    )  # even the right one waits


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://testserver.local:1"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_other_web_pages_are_refused_even_with_a_token(client: Ask, method: str, headers: dict[str, str]) -> None:
    answer = client(method, "/headway/runs/x/cancel", headers=headers | {"authorization": "Bearer tok-en"})
    assert answer.status_code == 403


def test_following_a_link_to_the_page_is_allowed(client: Ask) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "accept": "text/html"}
    assert client("GET", "/", headers=headers).status_code == 303  # to the login
    assert client("POST", "/", headers=headers).status_code == 403


def test_this_machine_needs_no_password_but_the_right_name() -> None:
    async def inside(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})

    guard = AccessGuard(inside, AccessPolicy.for_bind("127.0.0.1"))
    for base in ("http://127.0.0.1:7860", "http://localhost:7860", "http://[::1]:7860"):
        answer = Ask(guard, base)("GET", "/")
        assert answer.status_code == 200 and answer.headers["x-frame-options"] == "DENY"
        assert Ask(guard, base)("POST", "/", headers={"origin": base}).status_code == 200
    for base in (
        "http://rebound.example:7860",
        "http://127.0.0.1.nip.example",
        "http://192.168.0.2:7860",
        "http://localhost.example",
    ):
        assert Ask(guard, base)("GET", "/").status_code == 403, base
    assert Ask(guard, "http://127.0.0.1:7860")("GET", "/", headers={"host": ""}).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.2", "box.example", ""])
def test_listening_elsewhere_demands_a_secret(host: str) -> None:
    with pytest.raises(HeadwayError, match="set a password or a token") as error:
        AccessPolicy.for_bind(host)
    assert str(error.value).count(".") >= 1 and "\n" not in str(error.value)
    assert AccessPolicy.for_bind(host, token="t").secrets is not None


def test_names_that_are_answered_to() -> None:
    everywhere = AccessPolicy.for_bind("0.0.0.0", password="p", allowed_hosts=["Head.Way.example"])
    assert everywhere.accepts_host("192.168.0.2:7860") and everywhere.accepts_host("head.way.example")
    assert not everywhere.accepts_host("evil.example") and not everywhere.accepts_host("")
    one = AccessPolicy.for_bind("192.168.0.2", password="p")
    assert one.accepts_host("192.168.0.2:7860") and not one.accepts_host("192.168.0.3")


def test_sessions_end_and_throttles_forget_after_success() -> None:
    now = [100.0]
    sessions, throttle = Sessions(lambda: now[0]), Throttle(lambda: now[0])
    session = sessions.start()
    assert sessions.valid(session) and not sessions.valid("") and not sessions.valid(session + "x")
    now[0] += 13 * 3600
    assert not sessions.valid(session)
    waits = []
    for _ in range(8):
        assert throttle.attempt("a", lambda: False) is False
        start = now[0]
        while throttle.attempt("a", lambda: True) is None:
            now[0] += 0.25
            if now[0] - start > 60:
                raise AssertionError("the throttle never opens")
        waits.append(now[0] - start)
        throttle._failures["a"] = (len(waits), 0.0)  # go on counting as if the success had been a failure
    assert waits == sorted(waits) and waits[0] == 0.5 and max(waits) == 30.0
    assert throttle.attempt("b", lambda: True) is True
