"""Chunks with a sound digest that no writer of nats3 makes."""

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.chunks import SCHEMA


def with_column(chunk: bytes, name: str, values: pa.Array, **options: Any) -> bytes:
    """The chunk with other values in a column, under the metadata that it has."""
    table = pq.read_table(pa.BufferReader(chunk))
    return _written(table, chunk, name, values, **options)


def dictionary_of(chunk: bytes, name: str, value: str | bytes) -> bytes:
    """The chunk with one value in all rows of a column, which is in the file once."""
    rows = pq.read_metadata(pa.BufferReader(chunk)).num_rows
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    return with_column(chunk, name, values, use_dictionary=[name])


def shared_prefix(chunk: bytes, name: str, size: int) -> bytes:
    """The chunk with values of a column that have all but their last bytes in common."""
    rows = pq.read_metadata(pa.BufferReader(chunk)).num_rows
    values = pa.array([b"x" * size + b"%d" % n for n in range(rows)], pa.binary())
    return with_column(chunk, name, values, use_dictionary=False, column_encoding={name: "DELTA_BYTE_ARRAY"})


def with_more_rows(chunk: bytes, times: int) -> bytes:
    """The chunk with each row so many times."""
    table = pq.read_table(pa.BufferReader(chunk))
    return _written(pa.concat_tables([table] * times).combine_chunks(), chunk)


def with_metadata(chunk: bytes, **changes: str) -> bytes:
    return _written(pq.read_table(pa.BufferReader(chunk)), chunk, changes=changes)


def _written(
    table: pa.Table,
    chunk: bytes,
    name: str | None = None,
    values: pa.Array | None = None,
    changes: dict[str, str] | None = None,
    **options: Any,
) -> bytes:
    if name is not None and values is not None:
        at = table.column_names.index(name)
        table = table.set_column(at, SCHEMA.field(name).with_type(values.type), values)
    pairs = {key.decode(): value.decode() for key, value in pq.read_metadata(pa.BufferReader(chunk)).metadata.items()}
    pairs |= {f"nats3.{key}": value for key, value in (changes or {}).items()}
    lines = [f"{key}={value}\n" for key, value in sorted(pairs.items()) if key != "nats3.digest"]
    pairs["nats3.digest"] = hashlib.sha256("".join(lines).encode()).hexdigest()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False, **options) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
        writer.add_key_value_metadata(pairs)
    return sink.getvalue().to_pybytes()
