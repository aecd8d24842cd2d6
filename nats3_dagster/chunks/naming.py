"""Object keys: what a chunk is called in its bucket.

Invariant: a key follows from the chunk's identity and bytes alone. So a capture that is tried again asks for the same
key and finds its own object, and a listing of keys shows the ranges without opening an object.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import LAST_NS, SECOND_NS, hour_start
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.archive_spec import archive_prefix

_NAME = re.compile(
    r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)"
    r"/(?P<token>\d{8}T\d{15}Z)-(\d{20})-(\d{20})-(?P<digest>[0-9a-f]{12})\.parquet\Z",
    re.ASCII,
)

# Manifests, settings, records and the owner.
_DOCUMENTS = (".json", ".json.zst")
# No chunk is as large: its messages have 256 MiB at most.
_MOST_BYTES = 1 << 30


class ChunkName(NamedTuple):
    """The parts of a chunk's key."""

    hour: str  # YYYY-MM-DD-HH:00, UTC
    token: str  # of the incarnation
    covers: SeqRange
    digest: str  # the first 12 digits of the object's SHA-256

    @property
    def created_ns(self) -> int:
        """The time of the incarnation's token, in nanoseconds."""
        return _time(self.token)


def parse_key(key: str) -> ChunkName | None:
    """The parts of a chunk's key; None for any other object, also one whose name has no date, no time or no range."""
    match = _NAME.search(key)
    if match is None:
        return None
    name = ChunkName(
        f"{match[1]}-{match[2]}:00", match["token"], SeqRange(int(match[4]), int(match[5])), match["digest"]
    )
    return name if _are_times(name.hour, name.token) and 0 < name.covers.first <= name.covers.last < 1 << 63 else None


def may_be_chunk(key: str, size: int) -> bool:
    """False for an archive's own documents and for an object that is larger than any chunk."""
    return not key.endswith(_DOCUMENTS) and size <= _MOST_BYTES


# Many keys have the same.
@lru_cache(10_000)
def _are_times(hour: str, token: str) -> bool:
    try:
        return hour_start(hour) <= LAST_NS and 0 <= _time(token) <= LAST_NS
    except (OperatorError, ValueError):
        return False


def _time(token: str) -> int:
    """Raises ValueError."""
    moment = datetime.strptime(token[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND_NS + int(token[15:24])


def hour_folder(prefix: str, archive: str, hour: str) -> str:
    """Returns the folder of an hour's chunks and manifests: `<prefix>/archive=<name>/date=YYYY-MM-DD/hour=HH`."""
    return f"{archive_prefix(prefix, archive)}/date={hour[:10]}/hour={hour[11:13]}"


def object_key(prefix: str, archive: str, hour: str, incarnation: Incarnation, covers: SeqRange, sha256: str) -> str:
    """`<folder of the hour>/<incarnation>-<first>-<last>-<sha256[:12]>.parquet`.

    Sequences are padded to 20 digits, so keys sort as ranges do."""
    name = f"{incarnation.token}-{covers.first:020d}-{covers.last:020d}-{sha256[:12]}.parquet"
    return f"{hour_folder(prefix, archive, hour)}/{name}"
