"""What several tests of Dagster begin with."""

from nats3_dagster.archive.create import create
from nats3_dagster.catalog import Catalog
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def archive(settings: Settings, bucket: str, name: str = "events", stream: str = "EV", **more: object) -> None:
    """An archive of a stream that is there."""
    spec = ArchiveSpec(name=name, stream=stream, bucket=bucket, **more)  # type: ignore[arg-type]
    with Workspace(settings) as workspace:
        create(workspace, spec)


def archived(settings: Settings, name: str = "events") -> int:
    """How many messages the archive holds."""
    with Catalog.connect(settings.postgres) as catalog:
        return sum(chunk.meta.messages for chunk in catalog.chunks.select(catalog.archives.get(name)))
