"""Exports, seals and exported hours as the catalog has them."""

from datetime import UTC, datetime
from typing import Any

from nats3_dagster.catalog import Catalog
from nats3_dagster.model import Archive, ExportSpec, Seal
from nats3_dagster.model.export import Export, ExportHour, Made
from nats3_dagster_tests.support.catalog import HOUR

NEXT = "2026-11-21-08:00"


def declared(name: str = "pizza", **fields: Any) -> ExportSpec:
    values: dict[str, Any] = {
        "destination": "s3://lake/pizza",
        "subjects": ("orders.>",),
        "decode": "json",
        "key": "subject:2",
        "format": "csv",
        "columns": ("store", "price"),
        **fields,
    }
    return ExportSpec(name, **values)


def seal(catalog: Catalog, archive: Archive, hour: str = HOUR) -> Seal:
    """Seal the hour as it is."""
    row, _ = catalog.seals.next(archive, hour)
    key = f"{hour}-{row.number}.json"
    made = Seal(hour, row.number, row.revision, row.chunks, 0, row.losses, 0, "0" * 16, "archive", key, "0" * 64, 1)
    begun = datetime.now(UTC)
    catalog.seals.add(archive, made, begun=begun)
    return made


def export(catalog: Catalog, archive: Archive, of: Export, hour: str = HOUR) -> None:
    """Record that the hour was exported as it is sealed."""
    now = only(catalog, archive, of, hour)
    assert now.sealed
    made = Made(
        *now.sealed[:2], of.version, 2, now.sealed[2], 0, 1, 99, "0" * 16, "s3://lake/m.json", datetime.now(UTC)
    )
    catalog.exports.record(archive, of, hour, made)


def only(catalog: Catalog, archive: Archive, of: Export, hour: str = HOUR) -> ExportHour:
    (found,) = catalog.exports.hours(archive, of, first=hour, last=hour)
    return found
