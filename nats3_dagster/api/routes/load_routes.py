"""`/load/...`: replays as load jobs."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.parameters import JobId
from nats3_dagster.api.routes.load_events import events
from nats3_dagster.api.security import require
from nats3_dagster.api.wording import WORDS
from nats3_dagster.bodies.base import Text
from nats3_dagster.bodies.load_jobs import CreateLoadJob
from nats3_dagster.documents.replay_plans import ReplayPlan
from nats3_dagster.documents.replays import Replay, ReplayProgress
from nats3_dagster.errors import Conflict
from nats3_dagster.model import ReplaySpec
from nats3_dagster.replay import control, jobs
from nats3_dagster.replay.jobs import JobStatus
from nats3_dagster.runs import loads
from nats3_dagster.settings import Settings
from nats3_dagster.settings.token_scopes import Scope

router = APIRouter(tags=["load"], route_class=JsonRoute)


def starts() -> Callable[[Settings, ReplaySpec], loads.Starter]:
    """Returns the function that says how the server has a replay run."""
    return loads.starter


Starts = Annotated[Callable[[Settings, ReplaySpec], loads.Starter], Depends(starts)]


@router.post(
    "/load/job",
    status_code=201,
    response_model=Replay | ReplayPlan,
    responses={200: {"model": Replay | ReplayPlan, "description": "The job of that key, or the plan."}},
)
def create_load_job(
    body: CreateLoadJob,
    work: Work,
    starts: Starts,
    request: Request,
    response: Response,
    idempotency_key: Annotated[
        UUID | None, Header(description="Becomes the job's id. Given again, it finds the job that it began.")
    ] = None,
) -> Any:
    """Begin a replay. Nothing is recorded if it is refused. `delete_chunks` needs no confirmation here, and
    a token with the scope `erase`.

    Without an `Idempotency-Key` a second unfinished replay of the same selection to the same subjects is refused."""
    asked = body.request()
    if asked.spec.delete_chunks and not body.dry_run:
        require(request, Scope.erase)
    if body.dry_run:
        response.status_code = 200
        with body.named():
            return ReplayPlan.of(jobs.plan_job(work, asked))
    start_with = starts(work.settings, asked.spec)
    with body.named():
        replay, is_new = jobs.begin_job(work, asked, key=idempotency_key)
    if jobs.needs_start(replay):
        with suppress(Conflict):  # another server started it just now
            loads.start(work, replay, start_with)
    response.status_code = 201 if is_new else 200
    return Replay.of(jobs.job(work, replay.job_id), WORDS)


@router.get("/load/job", response_model=Replay)
def get_load_job(job_id: JobId, work: Work) -> Json:
    """One load job."""
    return Json(Replay.of(jobs.job(work, job_id), WORDS))


@router.get("/load/jobs", response_model=list[Replay])
def list_load_jobs(
    work: Work,
    status: Annotated[JobStatus | None, Query(description="Only jobs of this status.")] = None,
    archive: Annotated[Text | None, Query(description="Only of this archive.")] = None,
    bucket: Annotated[Text | None, Query(description="Only of archives in this bucket.")] = None,
    replay: Annotated[str | None, Query(pattern="^[0-9a-f]{16}$", description="Only of the replay of this id.")] = None,
    name: Annotated[Text | None, Query(description="Only jobs of this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most this many, newest first.")] = 1000,
) -> Json:
    """Load jobs, newest first."""
    selected = jobs.jobs(work, status=status, archive=archive, bucket=bucket, replay_id=replay, name=name, limit=limit)
    return Json([Replay.of(one, WORDS) for one in selected])


@router.post("/load/job/pause", response_model=Replay)
def pause_load_job(job_id: JobId, work: Work) -> Any:
    """Stop it after the messages that are under way, wherever it runs; the answer comes when it has stopped."""
    control.pause(work, jobs.job(work, job_id).replay.id, "Paused over HTTP")
    return Replay.of(jobs.job(work, job_id), WORDS)


@router.post("/load/job/resume", response_model=Replay)
def resume_load_job(job_id: JobId, work: Work, starts: Starts) -> Any:
    """Go on after its last message: a job that was paused, failed or was interrupted, or was never started."""
    current = jobs.job(work, job_id)
    jobs.check_may_start(current)
    loads.start(work, current.replay, starts(work.settings, current.replay.spec))
    return Replay.of(jobs.job(work, job_id), WORDS)


@router.delete("/load/job", status_code=204)
def delete_load_job(job_id: JobId, work: Work) -> None:
    """Take it out of the list. What it published stays. Refused while it runs: pause it first."""
    control.delete(work, jobs.job(work, job_id).replay.id)


@router.get(
    "/load/job/progress",
    response_model=ReplayProgress,
    responses={200: {"description": "Once, or as events while it goes on.", "content": {"text/event-stream": {}}}},
)
async def get_load_job_progress(
    job_id: JobId,
    work: Work,
    request: Request,
    accept: Annotated[str, Header(description="`text/event-stream` for events.")] = "",
) -> Any:
    """The progress of the job. As events: `progress` at every change, a comment every 15 s, and `end` when it has
    succeeded or failed."""
    document = ReplayProgress.of(await run_in_threadpool(jobs.progress, work, job_id), WORDS)
    if "text/event-stream" not in accept:
        return Json(document)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(request, work, job_id), media_type="text/event-stream", headers=headers)
