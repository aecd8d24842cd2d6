"""`/store`: archives as store jobs."""

import logging
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response

from nats3_dagster.api.context import Document, Recent, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.models.bodies import JobId
from nats3_dagster.api.models.store_models import CreatedStoreJob, DeletedStoreJob, StoreJob, StoreLag
from nats3_dagster.api.wording import WORDS
from nats3_dagster.archive import jobs as use_cases
from nats3_dagster.archive import status
from nats3_dagster.archive.create import create as create_archive
from nats3_dagster.archive.create import warning as creation_warning
from nats3_dagster.archive.jobs import JobStatus
from nats3_dagster.bodies.store_jobs import CreateStoreJob
from nats3_dagster.runs.reload import reload_locations
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import ANSWER_S, followed
from nats3_dagster.views import store_jobs as views

log = logging.getLogger(__name__)
router = APIRouter(prefix="/store", tags=["store"], route_class=JsonRoute)


@router.post("/job", status_code=201, response_model=CreatedStoreJob)
def create_store_job(
    body: CreateStoreJob, work: Work, recent: Recent, request: Request, response: Response, later: BackgroundTasks
) -> dict[str, Any]:
    """Create an archive. Its sensor captures what the stream has now and what comes."""
    archive = create_archive(work, body.spec(), job_name=body.name, create_bucket=body.create_bucket)
    later.add_task(_reload_dagster, work.settings)
    response.headers["Location"] = f"{request.url.path}?job_id={archive.job_id}"
    warning = creation_warning(work, archive)
    return views.store_job(use_cases.job(work, recent, archive.job_id), WORDS) | {"warning": warning or None}


@router.get("/job", response_model=StoreJob)
def get_store_job(job_id: JobId, work: Work, recent: Recent) -> Document:
    """One archive."""
    return Document(views.store_job(use_cases.job(work, recent, job_id), WORDS))


@router.delete("/job", response_model=DeletedStoreJob)
def delete_store_job(
    job_id: JobId, work: Work, later: BackgroundTasks,
    purge: Annotated[
        bool, Query(description="Delete the objects too, for good; also of an archive that was deleted before.")
    ] = False,
    keep_consumer: Annotated[
        bool, Query(description="Keep the durable consumer that the archive made: the stream keeps messages for it.")
    ] = False,
) -> dict[str, Any]:  # fmt: skip
    """Delete an archive. Its data stays in the bucket unless `purge` is true. The durable consumer that it made is
    deleted in the stream unless `keep_consumer` is true. Its Iceberg table has no files then, in some seconds at the
    latest unless its catalog is down."""
    with followed(work, use_cases.known(work, job_id).name, patience_s=ANSWER_S):
        archive, deleted = use_cases.delete(work, job_id, purge=purge, keep_consumer=keep_consumer)
    later.add_task(_reload_dagster, work.settings)
    return views.deleted(archive, deleted)


@router.get("/jobs", response_model=list[StoreJob] | StoreJob)
def list_store_jobs(
    work: Work, recent: Recent,
    job_id: Annotated[JobId | None, Query(description="Answer with this one job, not with a list.")] = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs of this status.")] = None,
    stream: Annotated[str | None, Query(description="Only archives of this stream.")] = None,
    bucket: Annotated[str | None, Query(description="Only archives in this bucket.")] = None,
    limit: Annotated[int | None, Query(ge=1, le=10_000, description="The first so many.")] = None,
) -> Document:
    """All archives, by the names of their archives."""
    if job_id is not None:
        return Document(views.store_job(use_cases.job(work, recent, job_id), WORDS))
    chosen = use_cases.jobs(work, recent, status=status, stream=stream, bucket=bucket, limit=limit)
    return Document([views.store_job(job, WORDS) for job in chosen])


@router.post("/job/pause", response_model=StoreJob)
def pause_store_job(job_id: JobId, work: Work, recent: Recent) -> dict[str, Any]:
    """Stop its sensors. What is captured stays; a capture that runs ends by itself."""
    status.pause(work, use_cases.find(work, job_id).name)
    return views.store_job(use_cases.job(work, recent, job_id), WORDS)


@router.post("/job/resume", response_model=StoreJob)
def resume_store_job(job_id: JobId, work: Work, recent: Recent) -> dict[str, Any]:
    """Start its sensors."""
    status.resume(work, use_cases.find(work, job_id).name)
    return views.store_job(use_cases.job(work, recent, job_id), WORDS)


@router.get("/job/lag", response_model=StoreLag)
def get_store_job_lag(job_id: JobId, work: Work) -> dict[str, Any]:
    """What is not captured yet, and how near the stream is to deleting some of it. 409 where the stream was deleted and
    made again, 503 where NATS does not answer."""
    return views.lag(use_cases.lag(work, job_id))


def _reload_dagster(settings: Settings) -> None:
    """Have Dagster load the archives anew. The request was answered by then; without this, its sensor does so."""
    if not settings.dagster_url:
        return
    done = reload_locations(settings.dagster_url)
    for refused in done.refused:
        log.warning("Dagster did not load %s", refused)
    if done.failure:
        log.warning("The Dagster at NATS3_DAGSTER_URL did not reload (%s)", done.failure)
