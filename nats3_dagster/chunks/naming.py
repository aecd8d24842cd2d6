"""Object keys: what a chunk is called in its bucket.

Invariant: a key follows from the chunk's identity and bytes alone. So a capture that is tried again asks for the same
key and finds its own object, and a listing of keys shows the ranges without opening an object.
"""

from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.archive_spec import archive_prefix


def hour_folder(prefix: str, archive: str, hour: str) -> str:
    """Where the chunks and manifests of an hour lie: `<prefix>/archive=<name>/date=YYYY-MM-DD/hour=HH`."""
    return f"{archive_prefix(prefix, archive)}/date={hour[:10]}/hour={hour[11:13]}"


def object_key(prefix: str, archive: str, hour: str, incarnation: Incarnation, covers: SeqRange, sha256: str) -> str:
    """`<folder of the hour>/<incarnation>-<first>-<last>-<sha256[:12]>.parquet`.

    Sequences are padded to 20 digits, so keys sort as ranges do."""
    name = f"{incarnation.token}-{covers.first:020d}-{covers.last:020d}-{sha256[:12]}.parquet"
    return f"{hour_folder(prefix, archive, hour)}/{name}"
