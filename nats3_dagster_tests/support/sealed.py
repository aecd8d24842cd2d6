"""Hours of a made-up archive in a catalog: chunks with times in their hour, and seals without a manifest."""

from typing import Any

from nats3_dagster.catalog import Catalog
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ChunkMeta, Gap, Incarnation, Reason, Seal
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges

H6, H7, H8, H9, H10 = (f"2026-11-21-{hour:02}:00" for hour in range(6, 11))
AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)
Pair = tuple[int, int]


def of(hour: str, first: int, last: int, messages: int | None = None, **fields: Any) -> ChunkMeta:
    """A chunk of an hour, with times in it."""
    start = hour_start(hour)
    return chunk(first, last, messages, **{"hour": hour, "first_ns": start + first, "last_ns": start + last, **fields})


def gap(*pairs: Pair, reason: Reason = "expired", incarnation: Incarnation = LOGS) -> Gap:
    """A gap of these sequences."""
    return Gap(incarnation, ranges(*pairs), reason)


def seal(catalog: Catalog, archive: Archive, hour: str, **fields: Any) -> Seal:
    """Seals an hour as the catalog says that it is; with other `fields` as it is not."""
    row, _ = catalog.seals.next(archive, hour)
    made: dict[str, Any] = {
        "hour": hour,
        "number": row.number,
        "revision": row.revision,
        "chunks": row.chunks,
        "losses": row.losses,
        "messages": 0,
        "gaps": 0,
        "content": "0" * 16,
        "bucket": "archive",
        "key": f"{hour}-{row.number}.json",
        "sha256": f"{row.number:064}",
        "stored_bytes": 9,
    }
    one = Seal(**{**made, **fields})
    catalog.seals.add(archive, one, begun=catalog.now())
    return one
