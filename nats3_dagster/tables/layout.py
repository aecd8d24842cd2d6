"""The form of an archive as a table: its columns, its partitions, and the entry of a chunk.

Invariant: what an entry says of a file is exact, or is left out. Engines skip files by it, and some answer min, max and
count by it alone.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from nats3_dagster.chunks import SCHEMA
from nats3_dagster.model.archive_table import TableFile
from nats3_dagster.objects import engines_address
from nats3_dagster.settings import Settings

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.types import PrimitiveType

# The property with the archive's job id: catalogs count archives each on their own, and this is the same in none.
OF_ARCHIVE: Final = "nats3.job-id"
# Columns that no file has: each is the same for all of a chunk, so the table's metadata has it as a partition.
HOUR_ID, INCARNATION_ID = 8, 9
_FIRST_PARTITION_ID: Final = 1000
# Only nats3 deletes chunks: with gc.enabled=false engines refuse DROP TABLE PURGE, expire_snapshots and
# remove_orphan_files. Old versions of the table's own metadata file are deleted with each commit, for a version repeats
# all that was in the one before. A removal reads and writes the manifests of its hours: with Iceberg's own 8 MB these
# would be 30,000 files.
GUARD: Final = {"gc.enabled": "false"}
PROPERTIES: Final = {
    **GUARD,
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.target-size-bytes": str(512 << 10),
    "history.expire.max-snapshot-age-ms": str(30 * 86_400_000),
    "history.expire.min-snapshots-to-keep": "10",
}


def schema() -> "Schema":
    """The columns: those of a chunk with their numbers, and the two that are the same for all of a chunk."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, StringType

    columns = [
        NestedField(field_id(field), field.name, _kind(field.type), required=not field.nullable) for field in SCHEMA
    ]
    hour = NestedField(HOUR_ID, "hour", StringType(), required=False, doc="The chunk's hour in UTC, YYYY-MM-DD-HH:00")
    life = NestedField(
        INCARNATION_ID,
        "incarnation",
        StringType(),
        required=False,
        doc="When the stream was created: one that was made again has the same sequences once more",
    )
    return Schema(*columns, hour, life)


def partitions() -> "PartitionSpec":
    """Partitions by the chunk's hour, as a column: hour(time) would be wrong where a clock stepped, since a chunk is of
    one hour by its sequences, and may have messages with times of another. And by incarnation."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(
        PartitionField(HOUR_ID, _FIRST_PARTITION_ID, IdentityTransform(), "hour"),
        PartitionField(INCARNATION_ID, _FIRST_PARTITION_ID + 1, IdentityTransform(), "incarnation"),
    )


def field_id(field: pa.Field) -> int:
    """The number of a chunk's column."""
    return int((field.metadata or {})[b"PARQUET:field_id"])


def name_mapping() -> str:
    """The table's columns by name, as JSON: for engines that look for names first."""
    return schema().name_mapping.model_dump_json()


def path_of(settings: Settings, file: TableFile) -> str:
    """The address of a chunk's object, as tables list it: nothing is escaped, for no client takes that back."""
    return location(settings, file.bucket, file.key)


def location(settings: Settings, bucket: str, key: str) -> str:
    """`s3://bucket/key`, `gs://bucket/key`, `abfss://container@account.dfs.core.windows.net/key`, or
    `file:///folder/bucket/key`."""
    there = settings.store.of(bucket)
    if there.cloud is not None:
        return f"{engines_address(there, bucket)}/{key}"
    folder = there.folder
    return f"s3://{bucket}/{key}" if folder is None else f"file://{folder / bucket / key}"


def entry(file: TableFile, path: str) -> "DataFile":
    """Returns the entry of a chunk in the table's manifest."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    low, high = _bounds(file)
    required = _required()
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(file.hour, file.incarnation),
        record_count=file.messages,
        file_size_in_bytes=file.stored_bytes,
        value_counts=dict.fromkeys(required, file.messages),
        null_value_counts=dict.fromkeys(required, 0),
        lower_bounds=low,
        upper_bounds=high,
    )
    made.spec_id = 0
    return made


def facts(data_file: "DataFile") -> tuple[Any, ...]:
    """Returns the facts of an entry that must be as `entry` makes them."""
    seq, time_ns, low, high = _ids()["seq"], _ids()["time_ns"], data_file.lower_bounds, data_file.upper_bounds
    bounds = [(ends or {}).get(of) for of in (seq, time_ns) for ends in (low, high)]
    partition = (data_file.partition[0], data_file.partition[1])
    return (data_file.record_count, data_file.file_size_in_bytes, partition, *bounds)


def facts_of(file: TableFile) -> tuple[Any, ...]:
    """The facts of the entry of a chunk; None for a sequence that only its footer has."""
    first, last = file.seqs or (None, None)
    bounds = (None if n is None else _long(n) for n in (first, last, file.first_ns, file.last_ns))
    return (file.messages, file.stored_bytes, (file.hour, file.incarnation), *bounds)


def _long(number: int) -> bytes:
    """Returns the bytes of a long as Iceberg writes them."""
    return number.to_bytes(8, "little", signed=True)


FACTS: Final = ("record count", "size", "partition", "first seq", "last seq", "first time_ns", "last time_ns")


def _bounds(file: TableFile) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """The smallest and the largest value of columns, as Iceberg writes them, by the column's number. Numbers and times
    alone: manifests outlive a file, and a subject in them would outlive its erasure (docs/decisions.md, 153)."""
    from pyiceberg.conversions import to_bytes

    low: dict[int, bytes] = {}
    high: dict[int, bytes] = {}
    kinds, ids = _kinds(), _ids()

    def bound(name: str, first: object, last: object) -> None:
        low[ids[name]], high[ids[name]] = to_bytes(kinds[name], first), to_bytes(kinds[name], last)

    if file.seqs:
        bound("seq", *file.seqs)
    bound("time_ns", file.first_ns, file.last_ns)
    bound("time", file.first_ns // 1000, file.last_ns // 1000)
    return low, high


# Asked for each of many files.
@cache
def _ids() -> dict[str, int]:
    return {field.name: field_id(field) for field in SCHEMA}


@cache
def _required() -> tuple[int, ...]:
    return tuple(field_id(field) for field in SCHEMA if not field.nullable)


@cache
def _kinds() -> "dict[str, PrimitiveType]":
    return {field.name: _kind(field.type) for field in SCHEMA}


def _kind(kind: pa.DataType) -> "PrimitiveType":
    from pyiceberg.types import BinaryType, LongType, StringType, TimestamptzType

    kinds = {
        pa.int64(): LongType,
        pa.timestamp("us", "UTC"): TimestamptzType,
        pa.string(): StringType,
        pa.binary(): BinaryType,
    }
    return kinds[kind]()
