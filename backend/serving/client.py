"""Asking an OpenAI-compatible server: what it serves, one completion, a streamed one; and what vLLM counts of drafts.

Any such server will do (vLLM, SGLang, TGI, llama.cpp); what only vLLM has is None elsewhere. Addresses and answers come
from outside, so whatever is wrong with them becomes one sentence.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from backend.errors import HeadwayError
from backend.serving.counters import DraftCounters, read_counters

CONNECT_S: Final = 5.0
ANSWER_S: Final = 600.0  #: between two pieces of an answer; a queue behind a busy server is long


class ServerGone(HeadwayError):
    """The server no longer answers, or answered that its engine is dead."""


@dataclass(frozen=True)
class ServerInfo:
    """What a server says of itself. `version`, `max_model_len`: None where it does not tell."""

    url: str
    model: str
    version: str | None
    max_model_len: int | None
    speculates: bool | None


@dataclass(frozen=True)
class Completion:
    """One whole answer. `token_ids`: where the server returns them; `prompt_ids` likewise; `speculation`: vLLM's own
    figures of this request, where it was started with them.
    """

    text: str
    token_ids: tuple[int, ...] | None
    prompt_ids: tuple[int, ...] | None
    finish_reason: str
    num_prompt: int | None
    num_tokens: int | None
    speculation: Mapping[str, Any] | None


@dataclass(frozen=True)
class Piece:
    """One event of a streamed answer. `tokens`: how many it carries, where that is told; `usage`: tokens of the whole
    answer, in the last event.
    """

    text: str
    tokens: int | None
    finish_reason: str | None
    usage: int | None


def base_url(text: str) -> str:
    """The server's address without a slash at the end and without /v1. Raises HeadwayError for no HTTP address."""
    url = text.strip().rstrip("/").removesuffix("/v1")
    parts = urlsplit(url)
    try:
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        whole = False
    if not whole:
        raise HeadwayError(f"{text!r:.120} is no address of a server; write it like http://127.0.0.1:8000.")
    return url


def http_client(url: str, connections: int = 100) -> httpx.AsyncClient:
    """A client for one server. Proxies of the environment are left out for this machine's own addresses."""
    local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    return httpx.AsyncClient(
        base_url=url,
        timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        trust_env=not local,
        verify=urlsplit(url).scheme == "https",  # reading the certificates takes longer than most answers
    )


async def ask_info(client: httpx.AsyncClient) -> ServerInfo:
    """What is served. Raises ServerGone when nothing answers, HeadwayError for what is no such server."""
    url = str(client.base_url).rstrip("/")
    listed = await _get(client, "/v1/models")
    if listed.status_code in (401, 403):
        raise HeadwayError(f"The server at {url} asks for a key, which Headway does not send; start it without one.")
    try:
        first = listed.raise_for_status().json()["data"][0]
        model = str(first["id"])
    except (httpx.HTTPStatusError, ValueError, KeyError, IndexError, TypeError):
        raise HeadwayError(
            f"What answers at {url} is no OpenAI-compatible server (it lists no model under /v1/models); check the URL."
        ) from None
    length = first.get("max_model_len")
    counters = await ask_counters(client)
    return ServerInfo(
        url,
        model,
        await _version(client),
        length if isinstance(length, int) else None,
        None if counters is None else counters.counts_drafts,
    )


async def ask_counters(client: httpx.AsyncClient) -> DraftCounters | None:
    """What vLLM has counted since it started; None for a server without such a page. Raises ServerGone."""
    answer = await _get(client, "/metrics")
    return read_counters(answer.text) if answer.status_code == 200 else None


async def is_well(client: httpx.AsyncClient, timeout_s: float = 2.0) -> bool:
    """Whether the server says that it is there; one without such a page is asked for its models.

    Raises ServerGone when nothing listens or its engine is dead; False when it only does not answer in time.
    """
    try:
        answer = await client.get("/health", timeout=timeout_s)
        if answer.status_code in (404, 405):
            answer = await client.get("/v1/models", timeout=timeout_s)
    except httpx.TimeoutException:
        return False
    except httpx.HTTPError as error:
        raise ServerGone(_gone(client, error)) from None
    if answer.status_code == 503:
        raise ServerGone(f"The server at {client.base_url} says that its engine is dead or still loading.")
    return answer.status_code < 400


async def complete(client: httpx.AsyncClient, body: Mapping[str, Any]) -> Completion:
    """One answer of /v1/completions. Raises ServerGone, or HeadwayError with what the server says is wrong."""
    try:
        answer = await client.post("/v1/completions", json=dict(body))
    except httpx.HTTPError as error:
        raise ServerGone(_gone(client, error)) from None
    if answer.status_code >= 400:
        raise _refused(answer.status_code, answer.content)
    try:
        data = answer.json()
        choice, usage = data["choices"][0], data.get("usage") or {}
        figures = (data.get("metrics") or choice.get("metrics") or {}).get("speculative_decoding")
        return Completion(
            str(choice.get("text") or ""),
            _ids(choice.get("token_ids")),
            _ids(choice.get("prompt_token_ids") or data.get("prompt_token_ids")),
            str(choice.get("finish_reason") or ""),
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            figures if isinstance(figures, dict) else None,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise HeadwayError(f"The server at {client.base_url} answered with no completion; is the URL right?") from None


@asynccontextmanager
async def streamed(
    client: httpx.AsyncClient, path: str, body: Mapping[str, Any]
) -> AsyncIterator[AsyncIterator[Piece]]:
    """The pieces of a streamed answer of /v1/completions or /v1/chat/completions. Errors as those of `complete`."""
    try:
        async with client.stream("POST", path, json={**body, "stream": True}) as answer:
            if answer.status_code >= 400:
                raise _refused(answer.status_code, await answer.aread())
            yield _pieces(client, answer)
    except httpx.HTTPError as error:
        raise ServerGone(_gone(client, error)) from None


async def _pieces(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncIterator[Piece]:
    ended = False
    async for line in answer.aiter_lines():
        if not line.startswith("data:"):
            continue
        text = line[5:].strip()
        if text == "[DONE]":
            ended = True
            continue
        try:
            event = json.loads(text)
        except ValueError:
            raise HeadwayError(f"The server at {client.base_url} streamed something that is no JSON.") from None
        if isinstance(event, dict) and event.get("error"):
            raise _refused(int(_code(event["error"])), json.dumps(event).encode())
        yield _piece(event)
    if not ended:
        raise ServerGone(f"The server at {client.base_url} ended an answer in the middle.")


def _piece(event: Any) -> Piece:
    choices = event.get("choices") if isinstance(event, dict) else None
    choice = choices[0] if choices else {}
    delta = choice.get("delta") or {}
    text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
    ids = choice.get("token_ids")
    usage = event.get("usage") or {} if isinstance(event, dict) else {}
    return Piece(
        str(text),
        len(ids) if isinstance(ids, list) else None,
        choice.get("finish_reason"),
        usage.get("completion_tokens"),
    )


async def _get(client: httpx.AsyncClient, path: str) -> httpx.Response:
    try:
        return await client.get(path, timeout=10.0)
    except httpx.HTTPError as error:
        raise ServerGone(_gone(client, error)) from None


async def _version(client: httpx.AsyncClient) -> str | None:
    answer = await _get(client, "/version")
    try:
        return f"vLLM {answer.json()['version']}" if answer.status_code == 200 else None
    except (ValueError, KeyError, TypeError):
        return None


def _refused(status: int, content: bytes) -> HeadwayError:
    """What a server says is wrong with a request."""
    try:
        data = json.loads(content)
        error = data.get("error", data)
        message = error.get("message") if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        message = content.decode("utf-8", "replace")
    words = " ".join(str(message or "no reason given").split())[:300]
    kind = ServerGone if status == 500 and "engine" in words.lower() and "dead" in words.lower() else HeadwayError
    return kind(f"The server refused a request ({status}): {words}")


def _code(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 500


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(map(int, value)) if isinstance(value, Sequence) and not isinstance(value, str) else None


def _gone(client: httpx.AsyncClient, error: httpx.HTTPError) -> str:
    url = str(client.base_url).rstrip("/")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"Nothing answers at {url}; is the server running, and is the URL right?"
    reason = str(error) or type(error).__name__
    return f"The connection to the server at {url} broke off ({reason})."
