"""Open streams end when the server does: an ASGI wrapper around everything else.

Streams of events go on for as long as a page is open, so a server that waits for them would wait until it loses
patience. Told to close, it says to each request that its reader has left, and ends the answer properly. Knows no page.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEFT: Message = {"type": "http.disconnect"}


class EndsWithServer:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._closing = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """From any thread: no stream goes on."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._closing.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        open_answer = False

        async def say(message: Message) -> None:
            nonlocal open_answer
            open_answer = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        async def hear() -> Message:
            return await self._hear(receive)

        await self._app(scope, hear, say)
        if open_answer and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _hear(self, receive: Receive) -> Message:
        """What comes from the browser; that it has left, as soon as the server closes."""
        if self._closing.is_set():
            return LEFT
        hearing, closing = asyncio.ensure_future(receive()), asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({hearing, closing}, return_when=asyncio.FIRST_COMPLETED)
            return hearing.result() if hearing.done() else LEFT
        finally:
            hearing.cancel()
            closing.cancel()
