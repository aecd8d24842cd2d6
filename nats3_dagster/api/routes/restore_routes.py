"""`/stream/restore`: a stream made again from its archive."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from nats3_dagster.api.context import Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.archive.restore.plan import plan
from nats3_dagster.bodies.restores import RestoreStream
from nats3_dagster.documents.restores import RestoredStream, StartedRestore
from nats3_dagster.runs import restores
from nats3_dagster.settings import Settings

router = APIRouter(prefix="/stream", tags=["stream"], route_class=JsonRoute)
Starts = Callable[[Settings, Mapping[str, Any], str], restores.Started]


def starts() -> Starts:
    """Returns the function that has a stream restored."""
    return restores.start


@router.post(
    "/restore",
    status_code=202,
    response_model=StartedRestore | RestoredStream,
    responses={200: {"model": RestoredStream, "description": "The plan: nothing was started."}},
)
def restore_stream(
    body: RestoreStream,
    work: Work,
    start: Annotated[Starts, Depends(starts)],
    response: Response,
    dry_run: Annotated[bool, Query(description="Answer with the plan, and start nothing.")] = False,
) -> Any:
    """Make a stream again from its archive, with the sequences, times, subjects and headers that it had. A stream of
    its name may not exist, and the server must be 2.15 or later. The plan is made first: what cannot be is refused, and
    nothing is started. Then a run of Dagster restores it, or a process where there is no webserver."""
    planned = plan(work, body.spec())
    if dry_run:
        response.status_code = 200
        return RestoredStream.of(planned, None)
    started = start(work.settings, body.config(), planned.stream)
    return StartedRestore(run_id=started.run_id, log=started.log, plan=RestoredStream.of(planned, None))
