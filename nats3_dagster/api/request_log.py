"""The log of requests, for `--debug`.

Invariant: of an address it has what the API itself defines: paths of its routes, and the values of their parameters.
Anything else in an address may be a token that a client put there.
"""

import logging
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nats3_dagster.api.security import PREFIX
from nats3_dagster.redaction import STARS, redacted

log = logging.getLogger(__name__)


class RequestLog:
    """An ASGI middleware, around all others: a line for each request, where the log is at debug level."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._routes = [route for route in routes if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not log.isEnabledFor(logging.DEBUG):
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        address = shown_address(scope["path"], scope["query_string"].decode("latin-1"), self._routes)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            took = (time.monotonic() - began) * 1000
            log.debug("%s %s: %s in %.0f ms", scope["method"], address, status or "no answer", took)


def shown_address(path: str, query: str, routes: Iterable[Route]) -> str:
    """Path and query of a request, as logs may have them."""
    route = next((route for route in routes if route.path_regex.match(path.removeprefix(PREFIX))), None)
    names = {field.alias for field in route.dependant.query_params} if isinstance(route, APIRoute) else set[str]()
    given = parse_qsl(query, keep_blank_values=True)
    shown = urlencode([(name, value) for name, value in given if name in names])
    hides = bool(query) and sum(name in names for name, _ in given) != len(query.split("&"))
    parts = [part for part in (shown, STARS if hides else "") if part]
    return redacted((path if route else "/...") + (f"?{'&'.join(parts)}" if parts else ""))
