"""`/archive/{name}/table`: an archive's Iceberg table. Only the catalog is asked, no Iceberg catalog."""

from typing import Annotated

from fastapi import APIRouter, Path

from nats3_dagster.api.context import Document, Work
from nats3_dagster.api.json_bodies import JsonRoute
from nats3_dagster.api.models.table_models import Table
from nats3_dagster.bodies.base import Text
from nats3_dagster.tables import tables
from nats3_dagster.views import tables as views

router = APIRouter(prefix="/archive/{name}", tags=["tables"], route_class=JsonRoute)


@router.get("/table", response_model=Table)
def get_table(
    name: Annotated[Text, Path(description="Name of the archive, or of a deleted one.", examples=["logs"])], work: Work
) -> Document:
    """The Iceberg table of an archive: where it is, what it was last made equal to, what it lacks, and why. The Iceberg
    catalog is not asked: `changed` is as of `seen_at`."""
    return Document(views.table(tables.find(work, name)))
