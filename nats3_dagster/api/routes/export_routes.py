"""`/archive/{name}/exports`: what an archive exports, and how far it is."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.bodies.base import Text
from nats3_dagster.documents.exports import Export, ExportDetail, ExportList
from nats3_dagster.exports.hours import state_of, states

MOST_HOURS = 10_000
router = APIRouter(prefix="/archive/{name}/exports", tags=["exports"], route_class=JsonRoute)
Name = Annotated[Text, Path(description="Name of the archive.", examples=["logs"])]


@router.get("", response_model=ExportList)
def list_exports(name: Name, work: Work) -> Json:
    """The exports of an archive: what is declared, what was made, and how many hours are due."""
    return Json(ExportList(exports=[Export.of(*one) for one in states(work, name)]))


@router.get("/{export}", response_model=ExportDetail)
def get_export(
    name: Name,
    work: Work,
    export: Annotated[Text, Path(description="Name of the export.", examples=["by_store"])],
    hours: Annotated[int, Query(ge=0, le=MOST_HOURS, description="List this many hours, the newest.")] = 1000,
) -> Json:
    """One export and the state of its newest hours."""
    return Json(ExportDetail.of_hours(*state_of(work, name, export), newest=hours))
