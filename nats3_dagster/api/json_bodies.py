"""JSON of requests: no key twice, no number that JSON does not have, and an error that names its place."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

# The position of an error that has none.
_NOWHERE = -1


class JsonRoute(APIRoute):
    """A route whose body is read so. Every router of the API has it (`route_class`)."""

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


def loads(body: bytes) -> Any:
    """The JSON of a body. Of two equal keys it is not known which was meant. Raises JSONDecodeError,
    UnicodeDecodeError, RecursionError."""
    return json.loads(body, object_pairs_hook=_object, parse_constant=_constant)


def not_json(reason: str, text: str, position: object) -> str:
    """The message about a text that is no JSON, with the line and column of the place where it is known."""
    if not isinstance(position, int) or position < 0:
        return f"It is not JSON: {reason}"
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"It is not JSON: {reason} (line {line}, column {column})"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise json.JSONDecodeError(f"the key {key[:200]!r} is there twice in one object", "", _NOWHERE)
        made[key] = value
    return made


def _constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no number of JSON", "", _NOWHERE)
