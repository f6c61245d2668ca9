"""Requests that others post: what was served with which drafter, a JSON object a line, for the watch to read.

    curl -H "Authorization: Bearer $(cat HOME/watch/token)" --data-binary @requests.jsonl ADDRESS/headway/watch

Lines that are requests go into the file that `watch` reads; others are told and counted. Whoever posts shows the token
of this home folder, or the dashboard's own where one is set. Knows no rule and no alarm.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from backend.analysis.watch_series import request_from
from backend.jobs.watch_job import posted_requests
from backend.settings import Settings
from dashboard.services import Services

TOKEN = "token"
MOST_BYTES = 8_000_000
MOST_REASONS = 20


class Postbox:
    """The file of posted requests of a home folder, and what was refused since this dashboard started."""

    def __init__(self, places: Settings) -> None:
        self.file = posted_requests(places)
        self.accepted, self.refused = 0, Counter[str]()

    def token(self) -> str:
        """Made at first, readable by its owner only."""
        place = self.file.with_name(TOKEN)
        if not place.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            made = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(24) + "\n")
        return place.read_text(encoding="ascii").strip()

    def put(self, body: bytes) -> dict[str, Any]:
        """{accepted, rejected: {reason: lines}}; the lines appear in the file together."""
        good, bad = [], Counter[str]()
        for line in filter(bytes.strip, body.split(b"\n")):
            try:
                request_from(json.loads(line))
                good.append(line.strip() + b"\n")
            except (ValueError, RecursionError) as error:
                bad["no JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)] += 1
        if good:
            self._append(b"".join(good))
        self.accepted += len(good)
        self._refuse(bad)
        return {"accepted": len(good), "rejected": dict(bad.most_common(MOST_REASONS))}

    def wrong_token(self) -> None:
        self._refuse(Counter({"wrong token": 1}))

    def _refuse(self, bad: Counter[str]) -> None:
        for reason, count in bad.items():
            known = reason in self.refused or len(self.refused) < MOST_REASONS
            self.refused[reason if known else "other"] += count

    def _append(self, lines: bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        place = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(place, lines)
        finally:
            os.close(place)


def watch_routes(services: Services) -> list[Route]:
    """POST: requests; GET: {accepted, rejected, file} since this dashboard started."""
    if services.places is None:
        return []
    box = Postbox(services.places)

    async def posted(request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        token = await run_in_threadpool(box.token)
        behind_login = services.access.secrets is not None  # who came as far as here has shown something
        if not behind_login and not hmac.compare_digest(given.encode(), token.encode()):
            box.wrong_token()
            place = box.file.with_name(TOKEN)
            return JSONResponse({"error": f"Post with the token in {place}, as Authorization: Bearer TOKEN."}, 401)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return JSONResponse({"error": f"Post at most {MOST_BYTES:,} bytes at once."}, 413)
        try:
            return JSONResponse(await run_in_threadpool(box.put, body))
        except OSError as error:
            return JSONResponse({"error": f"{box.file} can't be written: {error.strerror}."}, 507)

    async def counted(request: Request) -> Response:
        rejected = dict(box.refused)
        return JSONResponse({"accepted": box.accepted, "rejected": rejected, "file": str(Path(box.file))})

    return [Route("/headway/watch", posted, methods=["POST"]), Route("/headway/watch", counted)]
