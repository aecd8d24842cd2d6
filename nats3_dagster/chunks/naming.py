"""Object keys: what a chunk is called in its bucket.

Invariant: a key follows from the chunk's identity and bytes alone. So a capture that is tried again asks for the same
key and finds its own object, and a listing of keys shows the ranges without opening an object.
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.archive_spec import archive_prefix

_NAME = re.compile(
    r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/(?P<token>\d{8}T\d{15}Z)-(\d{20})-(\d{20})-(?P<digest>[0-9a-f]{12})\.parquet$"
)


class ChunkName(NamedTuple):
    """The parts of a chunk's key."""

    hour: str  # YYYY-MM-DD-HH:00, UTC
    token: str  # of the incarnation
    covers: SeqRange
    digest: str  # the first 12 digits of the object's SHA-256

    @property
    def created_ns(self) -> int:
        """The time of the incarnation's token, in nanoseconds."""
        moment = datetime.strptime(self.token[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return int(moment.timestamp()) * SECOND_NS + int(self.token[15:24])


def parse_key(key: str) -> ChunkName | None:
    """The parts of a chunk's key; None for any other object."""
    match = _NAME.search(key)
    if match is None:
        return None
    return ChunkName(
        f"{match[1]}-{match[2]}:00", match["token"], SeqRange(int(match[4]), int(match[5])), match["digest"]
    )


def hour_folder(prefix: str, archive: str, hour: str) -> str:
    """Where the chunks and manifests of an hour lie: `<prefix>/archive=<name>/date=YYYY-MM-DD/hour=HH`."""
    return f"{archive_prefix(prefix, archive)}/date={hour[:10]}/hour={hour[11:13]}"


def object_key(prefix: str, archive: str, hour: str, incarnation: Incarnation, covers: SeqRange, sha256: str) -> str:
    """`<folder of the hour>/<incarnation>-<first>-<last>-<sha256[:12]>.parquet`.

    Sequences are padded to 20 digits, so keys sort as ranges do."""
    name = f"{incarnation.token}-{covers.first:020d}-{covers.last:020d}-{sha256[:12]}.parquet"
    return f"{hour_folder(prefix, archive, hour)}/{name}"
