"""The record of an erasure: an object beside an archive's chunks that says which sequences were erased.

Invariant: it is written once, under a key that follows from its number and bytes, and never changed. It names the
record before it by its hash, so that none can be taken out of the chain, or changed, unseen. docs/chunk-format.md has
the keys. Nothing here needs a catalog, or Arrow: commands import it that read no chunk.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from nats3_dagster.errors import ChunkError
from nats3_dagster.model import SeqRange
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.objects import Bucket

RECORD_VERSION = 1
_BRING_BACK = "Bring it back from a copy of the bucket. If another program put it there, take it out"
_KEY = re.compile(r"/_erasures/(\d{8})-(?P<digest>[0-9a-f]{64})\.json$")


def records_folder(folder: str) -> str:
    """Returns the folder in which the records of an archive's folder lie. Engines that read Parquet files leave names
    with _ out."""
    return f"{folder}/_erasures"


def record_key(folder: str, number: int, digest: str) -> str:
    """`<folder>/_erasures/<number>-<sha256>.json`, the number with eight digits."""
    return f"{records_folder(folder)}/{number:08d}-{digest}.json"


def record_digest(key: str) -> str:
    """The SHA-256 that the key of a record has; empty for any other object."""
    match = _KEY.search(key)
    return match["digest"] if match else ""


def encode_record(record: ErasureRecord) -> tuple[bytes, str]:
    """The object's bytes, and their SHA-256 in hex. The same record gives the same bytes."""
    fields = {
        "record_version": RECORD_VERSION,
        "id": str(record.id),
        "number": record.number,
        "previous": record.previous,
        "decided_at": record.decided_at.isoformat(),
        "incarnations": [
            {"created_ns": created_ns, "sequences": [[part.first, part.last] for part in ranges]}
            for created_ns, ranges in sorted(record.sequences.items())
        ],
    }
    data = json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
    return data, hashlib.sha256(data).hexdigest()


def decode_record(key: str, data: bytes) -> ErasureRecord:
    """The record that `encode_record` wrote under this key. Raises ChunkError for anything else."""
    if hashlib.sha256(data).hexdigest() != record_digest(key):
        raise ChunkError(f"{key} is not the record of an erasure that it was", _BRING_BACK)
    try:
        fields: dict[str, Any] = json.loads(data)
        if fields["record_version"] != RECORD_VERSION:
            raise ChunkError(f"{key} is a record of version {fields['record_version']}", "Upgrade nats3")
        record = ErasureRecord(
            UUID(fields["id"]),
            int(fields["number"]),
            fields["previous"],
            datetime.fromisoformat(fields["decided_at"]),
            {
                int(one["created_ns"]): tuple(SeqRange(int(first), int(last)) for first, last in one["sequences"])
                for one in fields["incarnations"]
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ChunkError(f"{key} is not the record of an erasure", _BRING_BACK) from error
    ranges = [part for own in record.sequences.values() for part in own]
    if record.number < 1 or not all(1 <= part.first <= part.last <= MAX_SEQUENCE for part in ranges):
        raise ChunkError(f"{key} has sequences or a number that cannot be", _BRING_BACK)
    return record


def list_records(bucket: Bucket, folder: str) -> dict[str, str]:
    """The keys of the records in a folder of an archive, by their SHA-256. One listing. Raises StoreError."""
    keys = (key for key, _ in bucket.list(records_folder(folder)))
    return {digest: key for key in keys if (digest := record_digest(key))}


def read_records(bucket: Bucket, folder: str) -> Iterator[tuple[str, ErasureRecord]]:
    """The records in a folder of an archive, each with its SHA-256, ascending by their numbers. Raises StoreError;
    ChunkError for one that is not as it was written."""
    for digest, key in sorted(list_records(bucket, folder).items(), key=lambda item: item[1]):
        yield digest, decode_record(key, bytes(bucket.get(key)))
