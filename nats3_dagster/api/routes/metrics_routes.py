"""`/metrics`: what Prometheus scrapes."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.scrapes import Scrapes

router = APIRouter(tags=["status"], route_class=JsonRoute)


async def _scrapes(request: Request) -> Scrapes:
    """Returns the scrapes of the server. It runs in the server's loop, so that two requests do not make two."""
    state = request.app.state
    if not hasattr(state, "scrapes"):
        state.scrapes = Scrapes(state.workspace, state.domains)
    return state.scrapes


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}, "description": "The metrics."}},
)
def metrics(scrapes: Annotated[Scrapes, Depends(_scrapes)], accept: Annotated[str, Header()] = "") -> Response:
    """Every metric, as OpenMetrics where the request accepts that. It answers whatever is down: see `nats3_up`."""
    text, media_type = scrapes.exposition().encode(accept)
    return Response(text, headers={"content-type": media_type})
