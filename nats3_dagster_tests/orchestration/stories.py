"""What several tests of Dagster begin with."""

from nats3_dagster.archive.source import check_source
from nats3_dagster.catalog import Catalog
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings


def archive(settings: Settings, bucket: str, name: str = "events", stream: str = "EV", **more: object) -> None:
    """An archive of a stream that is there."""
    spec = ArchiveSpec(name=name, stream=stream, bucket=bucket, **more)  # type: ignore[arg-type]
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        catalog.archives.create(spec, check_source(link, spec))


def archived(settings: Settings, name: str = "events") -> int:
    """How many messages the archive holds."""
    with Catalog.connect(settings.postgres) as catalog:
        return sum(chunk.meta.messages for chunk in catalog.chunks.select(catalog.archives.get(name)))
