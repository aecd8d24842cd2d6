"""`/store`: archives as store jobs."""

import logging
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response

from nats3_dagster.api.context import Json, Recent, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.parameters import JobId, time_in
from nats3_dagster.api.security import require
from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive import status
from nats3_dagster.archive.lifecycle import jobs as use_cases
from nats3_dagster.archive.lifecycle.create import create as create_archive
from nats3_dagster.archive.lifecycle.create import warning as creation_warning
from nats3_dagster.archive.lifecycle.jobs import JobStatus
from nats3_dagster.archive.read.history import LINES, MOST_LINES, history
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.documents.archives import Archive, CreatedArchive, DeletedArchive
from nats3_dagster.documents.holdings import ArchiveLag
from nats3_dagster.documents.holds import Hold
from nats3_dagster.documents.keeping import HistoryEntry
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.runs.reload import reload_locations
from nats3_dagster.settings import Settings
from nats3_dagster.settings.token_scopes import Scope
from nats3_dagster.tables.follow import ANSWER_S, followed

log = logging.getLogger(__name__)
router = APIRouter(prefix="/store", tags=["store"], route_class=JsonRoute)


@router.post("/job", status_code=201, response_model=CreatedArchive)
def create_store_job(
    body: CreateStoreJob, work: Work, recent: Recent, request: Request, response: Response, later: BackgroundTasks
) -> Any:
    """Create an archive. Its sensor captures what the stream has now and what comes."""
    spec = body.spec()
    with body.named():
        archive = create_archive(work, spec, job_name=body.name, create_bucket=body.create_bucket)
    later.add_task(reload_dagster, work.settings)
    response.headers["Location"] = f"{request.url.path}?job_id={archive.job_id}"
    warning = creation_warning(work, archive)
    return CreatedArchive.of_new(use_cases.job(work, recent, archive.job_id), WORDS, warning)


@router.get("/job", response_model=Archive)
def get_store_job(job_id: JobId, work: Work, recent: Recent) -> Json:
    """One archive."""
    return Json(Archive.of(use_cases.job(work, recent, job_id), WORDS))


@router.delete("/job", response_model=DeletedArchive)
def delete_store_job(
    job_id: JobId,
    work: Work,
    request: Request,
    later: BackgroundTasks,
    purge: Annotated[
        bool, Query(description="Delete the objects too, for good; also of an archive that was deleted before.")
    ] = False,
    keep_consumer: Annotated[
        bool, Query(description="Keep the durable consumer that the archive made: the stream keeps messages for it.")
    ] = False,
) -> Any:
    """Delete an archive. Its data stays in the bucket unless `purge` is true. The durable consumer that it made is
    deleted in the stream unless `keep_consumer` is true. Its Iceberg table has no files then, in some seconds at the
    latest unless its catalog is down. `purge` needs a token with the scope `erase`."""
    if purge:
        require(request, Scope.erase)
    with followed(work, use_cases.of_job(work, job_id).name, patience_s=ANSWER_S):
        archive, deleted = use_cases.delete(work, job_id, purge=purge, keep_consumer=keep_consumer)
    later.add_task(reload_dagster, work.settings)
    return DeletedArchive.of(archive.name, archive, deleted)


@router.get("/jobs", response_model=list[Archive] | Archive)
def list_store_jobs(
    work: Work,
    recent: Recent,
    job_id: Annotated[JobId | None, Query(description="Answer with this one job, not with a list.")] = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs of this status.")] = None,
    stream: Annotated[str | None, Query(description="Only archives of this stream.")] = None,
    bucket: Annotated[str | None, Query(description="Only archives in this bucket.")] = None,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="Maximum number of jobs.")] = None,
) -> Json:
    """All archives, by the names of their archives."""
    if job_id is not None:
        return Json(Archive.of(use_cases.job(work, recent, job_id), WORDS))
    chosen = use_cases.jobs(work, recent, status=status, stream=stream, bucket=bucket, limit=limit)
    return Json([Archive.of(job, WORDS) for job in chosen])


@router.post("/job/pause", response_model=Archive)
def pause_store_job(job_id: JobId, work: Work, recent: Recent) -> Any:
    """Stop its sensors. What is captured stays; a capture that runs ends by itself."""
    status.pause(work, use_cases.find(work, job_id).name)
    return Archive.of(use_cases.job(work, recent, job_id), WORDS)


@router.post("/job/resume", response_model=Archive)
def resume_store_job(job_id: JobId, work: Work, recent: Recent) -> Any:
    """Start its sensors."""
    status.resume(work, use_cases.find(work, job_id).name)
    return Archive.of(use_cases.job(work, recent, job_id), WORDS)


@router.get("/job/lag", response_model=ArchiveLag)
def get_store_job_lag(job_id: JobId, work: Work) -> Any:
    """The uncaptured messages, and how near the stream is to deleting some of them. 409 where the stream was deleted
    and made again, 503 where NATS does not answer."""
    return ArchiveLag.of(use_cases.lag(work, job_id))


@router.get("/job/history", response_model=list[HistoryEntry])
def get_store_job_history(
    job_id: JobId,
    work: Work,
    limit: Annotated[int, Query(ge=1, le=MOST_LINES, description="The newest lines.")] = LINES,
    since: Annotated[str | None, Query(description="Nothing earlier: an RFC 3339 time, a date, or -2h.")] = None,
) -> Any:
    """The history of the archive, also of a deleted one, the newest first: captures, seals, replays, removals,
    expiries, holds, erasures, repairs, adoptions and changes of settings; who did it, and the next step of what
    failed."""
    since_ns = time_in("since", since)
    begin = None if since_ns is None else datetime.fromtimestamp(since_ns / SECOND_NS, UTC)
    found = history(work, [use_cases.of_job(work, job_id)], limit, begin)
    return [HistoryEntry.of(one, WORDS) for one in found]


@router.get("/job/holds", response_model=list[Hold])
def get_store_job_holds(job_id: JobId, work: Work) -> Any:
    """The holds of the archive, the oldest first: what they cover is not removed."""
    return [Hold.of(one) for one in work.catalog.holds.all(use_cases.find(work, job_id))]


def reload_dagster(settings: Settings) -> None:
    """Makes Dagster reload the archives. The request was answered by then. What is lost here `catalog_sensor` does."""
    if not settings.dagster_url:
        return
    done = reload_locations(settings.dagster_url)
    for refused in done.refused:
        log.warning("Dagster did not load %s", refused)
    if done.failure:
        log.warning("The Dagster at NATS3_DAGSTER_URL did not reload (%s)", done.failure)
