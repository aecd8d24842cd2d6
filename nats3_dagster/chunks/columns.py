"""The columns of a chunk, and the limits of its row groups.

Invariant: all of this but the limits is part of format version 1. A change makes files that older readers refuse, so it
needs a new FORMAT_VERSION and new golden files.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.errors import ChunkError
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.subjects import decoded, readable

FORMAT_VERSION: Final = 1

# One message costs one ranged read of about this much, before compression. 32 groups make a chunk of 64 MiB.
ROW_GROUP_BYTES: Final = 2 << 20
# For messages of a few bytes. 200,000 of 28 bytes: a row group is a read of 49 KB; at 65,536 rows it was 164 KB, in an
# object 1.2 % smaller. 62 groups make a chunk of CHUNK_MESSAGES.
ROW_GROUP_ROWS: Final = 1 << 14
# Where a chunk ends and the next one begins: it bounds a worker's memory, and a replay fetches about this much ahead.
CHUNK_BYTES: Final = 64 << 20
CHUNK_MESSAGES: Final = 1_000_000
# Subjects, header blocks and payloads of a chunk that is written or read: one message may be larger than CHUNK_BYTES,
# and then has a chunk for itself. The largest `max_payload` that NATS documents is 64 MB; servers take more.
MOST_BYTES: Final = 256 << 20


def _column(field_id: int, name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    """A column with a number: engines that read an Iceberg table (tables/) find columns by it, not by name."""
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(field_id)})


SCHEMA: Final = pa.schema(
    [
        _column(1, "seq", pa.int64()),
        _column(2, "time", pa.timestamp("us", "UTC")),
        _column(3, "time_ns", pa.int64()),
        _column(4, "subject", pa.string()),
        _column(5, "subject_bytes", pa.binary(), nullable=True),
        _column(6, "headers", pa.binary(), nullable=True),
        _column(7, "data", pa.binary()),
    ]
)


def as_wire(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with exactly the columns of MESSAGES; a `subject` column of dictionaries is decoded. No copy otherwise.

    Raises ChunkError for missing columns, other types, nulls where the schema has none, and subjects that contradict
    their bytes."""
    columns: list[pa.Array] = []
    for field in MESSAGES:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise ChunkError(f"The messages have no column {field.name!r}")
        column = batch.column(index)
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, field.type)
        if column.type != field.type:
            raise ChunkError(f"The column {field.name!r} is {column.type} and should be {field.type}")
        if column.null_count and not field.nullable:
            raise ChunkError(f"The column {field.name!r} has messages without a value")
        columns.append(column)
    batch = pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
    check_subjects(batch)
    return batch


def check_subjects(batch: pa.RecordBatch) -> None:
    """Raises ChunkError unless `subject_bytes` has only subjects that are not UTF-8, and `subject` their text."""
    exact = batch.column("subject_bytes")
    if exact.null_count == len(exact):
        return
    given = exact.is_valid()
    pairs = pa.RecordBatch.from_arrays([batch.column("subject").filter(given), exact.filter(given)], ["text", "raw"])
    for pair in pairs.to_pylist():
        subject = decoded(pair["raw"])
        if subject == pair["text"] or readable(subject) != pair["text"]:
            raise ChunkError(f"The subject {pair['text']!r} is not the text of the bytes {pair['raw']!r}")


def sizes(batch: pa.RecordBatch, *columns: str) -> Int64s:
    """Bytes of each message in these columns together; a null has none."""
    total = np.zeros(batch.num_rows, np.int64)
    for name in columns:
        length = pc.binary_length(batch.column(name))
        total += (length.fill_null(0) if length.null_count else length).to_numpy(zero_copy_only=False)
    return total


def body_sizes(batch: pa.RecordBatch) -> Int64s:
    """Bytes of header block and payload of each message: what the server's `max_payload` limits."""
    return sizes(batch, "headers", "data")


def payload_sizes(batch: pa.RecordBatch) -> Int64s:
    """Bytes of subject, header block and payload of each message."""
    return subject_sizes(batch) + body_sizes(batch)


def subject_sizes(batch: pa.RecordBatch) -> Int64s:
    """Bytes of the subject of each message, as it was on the wire."""
    exact, total = batch.column("subject_bytes"), sizes(batch, "subject")
    if exact.null_count == len(exact):
        return total
    lengths = pc.binary_length(exact).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(lengths < 0, total, lengths).astype(np.int64)


def fitting(ends: Int64s, start: int, limit: int) -> int:
    """Returns the number of rows from `start` on that have at most `limit` bytes together. `ends` are the running
    totals of a batch."""
    before = int(ends[start - 1]) if start else 0
    return int(np.searchsorted(ends, before + limit, side="right")) - start
