"""How Headway's own routes answer: JSON beside the event loop, and every error as one sentence. Knows no route."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from backend.errors import HeadwayError
from dashboard.runs import PERSONS_ERRORS, one_sentence
from storage.errors import NotFoundError

MAX_BODY_BYTES = 1 << 20


async def answer(act: Callable[[], Any]) -> Response:
    """What `act` gives, as JSON or as the response it made; a person's error is 400 or 404, a fault 500."""
    try:
        made = await run_in_threadpool(act)
    except Exception as error:
        status = 404 if isinstance(error, NotFoundError) else 400 if isinstance(error, PERSONS_ERRORS) else 500
        return JSONResponse({"error": one_sentence(error)}, status)
    return made if isinstance(made, Response) else JSONResponse(made)


async def answer_sent(request: Request, act: Callable[[dict[str, Any]], Any]) -> Response:
    """Like `answer`, for an `act` that takes the JSON object that was sent."""
    try:
        values = await _body(request)
    except HeadwayError as error:
        return JSONResponse({"error": str(error)}, 400)
    return await answer(lambda: act(values))


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that was sent, {} for none. Raises HeadwayError for anything else."""
    received = b""
    async for part in request.stream():
        received += part
        if len(received) > MAX_BODY_BYTES:
            raise HeadwayError("That is more than a page ever sends; nothing was changed.")
    try:
        values = json.loads(received or b"{}")
    except ValueError:
        raise HeadwayError("The request holds no JSON; nothing was changed.") from None
    if not isinstance(values, dict):
        raise HeadwayError("The request has to hold a JSON object; nothing was changed.")
    return values


def download(text: str, name: str, media_type: str) -> Response:
    """A file to be saved under this name (ASCII letters, digits, dash and dot)."""
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text.encode("utf-8", "replace"), media_type=f"{media_type}; charset=utf-8", headers=headers)
