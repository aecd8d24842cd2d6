"""Object keys: what a chunk is called in its bucket.

The rule kept here: a key follows from the chunk's identity and bytes alone. So a retry of the same capture asks for the
same key and finds its own object, and a listing of keys tells ranges without opening anything.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from nats3_dagster.errors import ChunkError, OperatorError
from nats3_dagster.hours import SECOND_NS, hour_start
from nats3_dagster.model import Incarnation, SeqRange

_KEY = re.compile(
    r"(?:(?P<prefix>.+)/)?archive=(?P<archive>[A-Za-z0-9_]+)/date=(?P<date>\d{4}-\d\d-\d\d)/hour=(?P<hour>\d\d)/"
    r"(?P<created>\d{8}T\d{6})(?P<fraction>\d{9})Z-(?P<first>\d{20})-(?P<last>\d{20})-(?P<digest>[0-9a-f]{12})\.parquet"
)


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """What a key says. `digest` is the first 12 hex digits of the object's SHA-256."""

    prefix: str
    archive: str
    hour: str
    created_ns: int
    covers: SeqRange
    digest: str


def archive_prefix(prefix: str, archive: str) -> str:
    """Where all chunks of an archive lie; no slash at the end."""
    return f"{prefix}/archive={archive}" if prefix else f"archive={archive}"


def object_key(prefix: str, archive: str, hour: str, incarnation: Incarnation, covers: SeqRange, sha256: str) -> str:
    """`<prefix>/archive=<name>/date=YYYY-MM-DD/hour=HH/<incarnation>-<first>-<last>-<sha256[:12]>.parquet`.

    Sequences are padded to 20 digits, so keys sort as ranges do."""
    return (
        f"{archive_prefix(prefix, archive)}/date={hour[:10]}/hour={hour[11:13]}/"
        f"{incarnation.token}-{covers.first:020d}-{covers.last:020d}-{sha256[:12]}.parquet"
    )


def parse_key(key: str) -> ChunkKey:
    """The reverse of `object_key`. Raises ChunkError when `key` is not a chunk's."""
    if not (match := _KEY.fullmatch(key)):
        raise ChunkError(f"{key!r} is not the key of a chunk")
    hour = f"{match['date']}-{match['hour']}:00"
    try:
        hour_start(hour)
        created = datetime.strptime(match["created"], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except (OperatorError, ValueError) as error:
        raise ChunkError(f"{key!r} is not the key of a chunk, for its time does not exist") from error
    return ChunkKey(
        prefix=match["prefix"] or "",
        archive=match["archive"],
        hour=hour,
        created_ns=int(created.timestamp()) * SECOND_NS + int(match["fraction"]),
        covers=SeqRange(int(match["first"]), int(match["last"])),
        digest=match["digest"],
    )
