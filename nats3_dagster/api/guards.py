"""The layers before every route: the limit on bodies, HEAD, and the answer to unforeseen errors."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from nats3_dagster.api.problems import answer, internal_error, too_large

Message = MutableMapping[str, Any]


class Guards:
    """An ASGI middleware. A body over `max_body` bytes is refused by its announced length, or when it has come so far;
    an exception becomes a problem without its text. HEAD is answered as GET is, without the body."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self._app = app
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope, receive, send = {**scope, "method": "GET"}, *_without_body(send)
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        try:
            if announced.isdigit() and int(announced) > self._max_body:
                await answer(too_large(self._max_body), {"Connection": "close"})(scope, receive, sending)
                return
            await self._app(scope, self._counting(receive), sending)
        except Exception as error:
            response = internal_error(error)
            if began:  # what is missing of an answer shows as a broken connection
                raise ConnectionAbortedError from None
            await response(scope, receive, sending)

    def _counting(self, receive: Receive) -> Receive:
        size = 0

        async def received() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body:
                raise HTTPException(413, too_large(self._max_body)["error"], {"Connection": "close"})
            return message

        return received


def _without_body(send: Send) -> tuple[Receive, Send]:
    """Returns `receive` and `send` for the answer to HEAD: its client is away as soon as the headers are sent, so that
    an answer without an end stops."""
    began = asyncio.Event()
    has_asked = False

    async def receiving() -> Message:
        nonlocal has_asked
        if not has_asked:
            has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await began.wait()
        return {"type": "http.disconnect"}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            began.set()

    return receiving, sending
