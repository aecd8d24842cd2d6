"""`/chunks`: the objects of archives."""

import re
from typing import Annotated

from fastapi import APIRouter, Path, Query

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.parameters import JobId, time_in
from nats3_dagster.archive.lifecycle import jobs
from nats3_dagster.archive.read import chunk_pages
from nats3_dagster.archive.read.chunk_pages import Position
from nats3_dagster.bodies.base import BIGGEST, Text
from nats3_dagster.documents.chunks import Chunk, ChunkDetail, ChunkPage
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

MOST = 1000
router = APIRouter(prefix="/chunks", tags=["chunks"], route_class=JsonRoute)


@router.get("", response_model=ChunkPage)
def list_chunks(
    work: Work,
    archive: Annotated[Text | None, Query(description="Name of the archive, or of its job.")] = None,
    job_id: Annotated[JobId | None, Query(description="Or the id of its job.")] = None,
    hour: Annotated[
        list[str] | None,
        Query(description="Only of this hour. May be repeated.", examples=[["2026-11-21-07:00"]], max_length=MOST),
    ] = None,
    from_time: Annotated[
        str | None, Query(description="Only with a message from this time on (RFC 3339, or -2h).")
    ] = None,
    to_time: Annotated[str | None, Query(description="Only with a message before this time.")] = None,
    subject: Annotated[
        Text | None, Query(description="Only those that may have a message of this NATS filter.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST, description="Chunks of a page.")] = 100,
    cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
) -> Json:
    """A page of the chunks of one archive, in the order of the stream. A page may have fewer chunks than asked for and
    still a next one."""
    times = time_in("from_time", from_time), time_in("to_time", to_time)
    page = chunk_pages.page(
        work,
        _archive(work, archive, job_id),
        hours=hour or (),
        times=times,
        subject=subject,
        after=_position(cursor),
        limit=limit,
    )
    after = "-".join(map(str, page.next)) if page.next else None
    return Json(ChunkPage(chunks=[Chunk.of(chunk) for chunk in page.chunks], next=after))


@router.get("/{chunk_id}", response_model=ChunkDetail)
def get_chunk(
    chunk_id: Annotated[int, Path(ge=1, le=BIGGEST, description="Its `id` in a page.", examples=[42])], work: Work
) -> Json:
    """All about one chunk: where it is, its subjects, the replays that published it."""
    return Json(ChunkDetail.of_report(chunk_pages.chunk(work, chunk_id), work.settings.dagster_url))


def _archive(work: Workspace, name: str | None, job_id: JobId | None) -> Archive:
    if (name is None) == (job_id is None):
        raise OperatorError("The archive is not given", "Give archive or job_id, not both", field="archive")
    return jobs.find(work, job_id) if job_id is not None else work.catalog.archives.get(name or "")


def _position(cursor: str | None) -> Position | None:
    if cursor is None:
        return None
    parts = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,19})", cursor)
    if parts is None or int(parts[2]) > BIGGEST:
        raise OperatorError(f"{cursor[:60]!r} is not a cursor", "Give `next` of the page before", field="cursor")
    return int(parts[1]), int(parts[2])
