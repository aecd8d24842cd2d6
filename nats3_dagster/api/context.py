"""What a route works with."""

from typing import Annotated

from fastapi import Depends, Request

from nats3_dagster.archive.recent import RecentConditions
from nats3_dagster.workspace import Workspace


def _workspace(request: Request) -> Workspace:
    return request.app.state.workspace


def _recent(request: Request) -> RecentConditions:
    return request.app.state.recent


# The workspace of the server: its catalog has a pool of connections for all requests.
Work = Annotated[Workspace, Depends(_workspace)]
# What its clients share of the sources' conditions.
Recent = Annotated[RecentConditions, Depends(_recent)]
