"""Frame: the messages of a selection as one Arrow table, for data frames.

Invariant: a frame has all messages of the rest of its selection, or there is an error; and never more than it may have.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.chunks import SCHEMA
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.quantities import size_text

# The columns of a chunk, its hour, and when its stream was made: those of Spark's `format("nats3")`, with header blocks
# as on the wire.
COLUMNS: Final = pa.schema(
    [
        *(SCHEMA.field(name).remove_metadata() for name in ("seq", "time", "time_ns", "subject", "subject_bytes")),
        pa.field("hour", pa.string(), nullable=False),
        *(SCHEMA.field(name).remove_metadata() for name in ("headers", "data")),
        # Nanoseconds since 1970. Each incarnation of the stream has sequences of its own.
        pa.field("stream_created_ns", pa.int64(), nullable=False),
    ]
)
# Bytes of a frame unless its reader says otherwise. Made a data frame of, it takes about as much once more.
MAX_BYTES: Final = 1 << 30


def frame(cursor: Cursor, columns: Iterable[str] | None = None, max_bytes: int = MAX_BYTES) -> pa.Table:
    """The rest of the cursor's selection, which counts as read then; a table without rows if there is none. `columns`:
    some of COLUMNS, in this order. `max_bytes`: the limit of the table.

    Raises OperatorError for another column, and if there is more; and as `Cursor.batches`. After an error the rest is
    the same."""
    names = checked_columns(columns)
    if max_bytes < 1:
        raise OperatorError(f"max_bytes is {max_bytes}", "Give 1 or more", field="max_bytes")
    schema = pa.schema([COLUMNS.field(name) for name in names])
    before = cursor.token()
    batches: list[pa.RecordBatch] = []
    try:
        size = 0
        for batch in _batches(cursor, names, schema):
            size += batch.nbytes
            if size > max_bytes:
                raise OperatorError(
                    f"The selection of archive {cursor.archive.name} has more than {size_text(max_bytes)} in the "
                    f"columns {', '.join(names)}",
                    "Select fewer hours, subjects or columns, raise max_bytes, or read batch by batch",
                    field="max_bytes",
                )
            batches.append(batch)
    except BaseException:
        cursor.rewind(before)
        raise
    return pa.Table.from_batches(batches, schema)


def checked_columns(columns: Iterable[str] | None) -> Sequence[str]:
    """The names of the columns, each once; all of COLUMNS for None. Raises OperatorError for another one, or none."""
    names = COLUMNS.names if columns is None else [*dict.fromkeys([columns] if isinstance(columns, str) else columns)]
    unknown = [name for name in names if name not in COLUMNS.names]
    if unknown or not names:
        what = f"A frame has no column {unknown[0]!r}" if unknown else "The frame has no columns"
        raise OperatorError(what, f"Choose from {', '.join(COLUMNS.names)}", field="columns")
    return names


def _batches(cursor: Cursor, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    needed = {"seq", "time_ns", *names}
    if cursor.selection.subjects:
        needed |= {"subject", "subject_bytes"}
    stored = [name for name in SCHEMA.names if name in needed]
    for batch in cursor.batches(columns=stored):
        constants = {"hour": cursor.hour, "stream_created_ns": cursor.incarnation.created_ns}
        columns = [
            pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
            if field.name in constants
            else batch.column(field.name)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
