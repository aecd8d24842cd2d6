"""Requests whose JSON is read strictly."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from nats3_dagster.bodies.strict_json import loads


class JsonRoute(APIRoute):
    """A route whose body is read by `strict_json`. Every router of the API has it (`route_class`)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, with a request that reads JSON strictly."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handler


class _Request(Request):
    async def json(self) -> Any:
        """Raises JSONDecodeError."""
        if not hasattr(self, "_json"):
            self._json = loads(await self.body())
        return self._json
