"""The input of a route, and the forms of its answers."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic_core import to_json

from nats3_dagster.archive.source.condition import RecentConditions
from nats3_dagster.workspace import Workspace


class Json(Response):
    """A document as it is. FastAPI makes what a route returns otherwise into its `response_model` first, in another
    turn of a thread."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


# They and `_refuse_unknown_parameters` are `async`, because FastAPI has every other function called by a thread.
async def _workspace(request: Request) -> Workspace:
    return request.app.state.workspace


async def _recent(request: Request) -> RecentConditions:
    return request.app.state.recent


async def _is_away(request: Request) -> AsyncGenerator[Callable[[], bool]]:
    """A function for the thread of a route: true once its client has gone, or the server is to end."""
    gone, ending = threading.Event(), request.app.state.ending

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield lambda: gone.is_set() or ending.is_set()
    finally:
        watching.cancel()


# The workspace of the server: its catalog has a pool of connections for all requests.
Work = Annotated[Workspace, Depends(_workspace)]
# What its clients share of the sources' conditions.
Recent = Annotated[RecentConditions, Depends(_recent)]
# For work that only the client needs: it stops where this is true.
IsAway = Annotated[Callable[[], bool], Depends(_is_away)]
