"""What a route works with."""

from typing import Annotated

from fastapi import Depends, Request

from nats3_dagster.workspace import Workspace


def _workspace(request: Request) -> Workspace:
    return request.app.state.workspace


# The workspace of the server: its catalog has a pool of connections for all requests.
Work = Annotated[Workspace, Depends(_workspace)]
