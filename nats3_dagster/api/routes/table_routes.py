"""`/archive/{name}/table`: an archive's Iceberg table. Only the catalog is asked, no Iceberg catalog."""

from typing import Annotated

from fastapi import APIRouter, Path

from nats3_dagster.api.context import Json, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.bodies.base import Text
from nats3_dagster.documents.tables import Table
from nats3_dagster.tables import tables

router = APIRouter(prefix="/archive/{name}", tags=["tables"], route_class=JsonRoute)


@router.get("/table", response_model=Table)
def get_table(
    name: Annotated[Text, Path(description="Name of the archive, or of a deleted one.", examples=["logs"])], work: Work
) -> Json:
    """The Iceberg table of an archive: its address, its last sync, its missing chunks and the reason. The Iceberg
    catalog is not asked: `changed` is as of `seen_at`."""
    return Json(Table.of(tables.find(work, name)))
