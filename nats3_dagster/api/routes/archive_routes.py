"""`/archive/{name}`: all about one archive."""

from typing import Annotated

from fastapi import APIRouter, Path

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.wording import WORDS
from nats3_dagster.bodies.base import Text
from nats3_dagster.documents.holdings import ArchiveDetail
from nats3_dagster.replay.overview import overview

router = APIRouter(prefix="/archive", tags=["archives"], route_class=JsonRoute)


@router.get("/{name}", response_model=ArchiveDetail)
def get_archive(
    name: Annotated[Text, Path(description="Name of the archive, or id or name of its job.", examples=["logs"])],
    work: Work,
) -> Json:
    """One archive: what it holds of each life of its stream, what waits, what was lost. It costs more than
    `/store/job`: ask that for the status."""
    return Json(ArchiveDetail.of_overview(overview(work, name), WORDS))
