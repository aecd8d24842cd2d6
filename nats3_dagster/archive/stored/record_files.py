"""Files of erasure records: what a folder of an archive has of them, without a catalog."""

from collections.abc import Iterator

from nats3_dagster.chunks.erasure_record import decode_record, record_digest, records_folder
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster.objects import Bucket


def found_records(bucket: Bucket, folder: str) -> dict[str, str]:
    """The keys of the records in a folder of an archive, by their SHA-256. One listing. Raises StoreError."""
    keys = (key for key, _ in bucket.list(records_folder(folder)))
    return {digest: key for key in keys if (digest := record_digest(key))}


def read_records(bucket: Bucket, folder: str) -> Iterator[tuple[str, ErasureRecord]]:
    """The records in a folder of an archive, each with its SHA-256, ascending by their numbers. Raises StoreError;
    ChunkError for one that is not as it was written."""
    for digest, key in sorted(found_records(bucket, folder).items(), key=lambda item: item[1]):
        yield digest, decode_record(key, bytes(bucket.get(key)))
