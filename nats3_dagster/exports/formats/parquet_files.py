"""Parquet files: rows of fields as columns, whatever the types of their values."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.exports.decoding.message import Message, Row, Undecodable
from nats3_dagster.exports.formats.values import PENDING_ROWS, to_exact_json


class ParquetFiles:
    """Parquet. A column whose values have no type in common is JSON text."""

    whole = False

    def __init__(
        self, columns: Sequence[str], compression: str, types: Mapping[str, pa.DataType] | None = None
    ) -> None:
        """`types`: of columns that have one also where all their values are null."""
        self._columns = tuple(columns)
        self._compression = compression
        self._types = types or {}

    def prepare(self, message: Message, row: Row, /) -> dict[str, Any]:
        fields = {str(name): value for name, value in row.fields.items()}
        if self._columns:
            return {name: fields.get(name) for name in self._columns}
        if not fields:
            raise Undecodable("The row has no fields, and Parquet needs one")
        return fields

    def new_file(self) -> "ParquetFile":
        return ParquetFile(self._compression, self._types)


class ParquetFile:
    """Takes fields by name."""

    def __init__(self, compression: str, types: Mapping[str, pa.DataType]) -> None:
        self._compression = compression
        self._types = types
        self._pending: list[dict[str, Any]] = []
        self._tables: list[pa.Table] = []

    def add(self, prepared: dict[str, Any]) -> None:
        self._pending.append(prepared)
        if len(self._pending) == PENDING_ROWS:
            self._flush()

    def finish(self) -> bytes:
        self._flush()
        sink = BytesIO()
        pq.write_table(_joined(self._tables), sink, compression=self._compression)
        return sink.getvalue()

    def _flush(self) -> None:
        if not self._pending:
            return
        names = list(dict.fromkeys(name for row in self._pending for name in row))
        columns = [_column([row.get(name) for row in self._pending], self._types.get(name)) for name in names]
        self._tables.append(pa.Table.from_arrays(columns, names=names))
        self._pending = []


def _column(values: list[Any], known: pa.DataType | None = None) -> pa.Array:
    if known is not None:
        return pa.array(values, known)
    try:
        column = pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return _json_column(values)
    # A number that is not exact in 64 bits must not become one that is only near it.
    mixed = pa.types.is_floating(column.type) and any(type(value) is int and abs(value) > 2**53 for value in values)
    # An object without any field is a column that no file can have.
    bare = pa.types.is_struct(column.type) and not column.type.num_fields
    return _json_column(values) if mixed or bare else column


def _json_column(values: list[Any]) -> pa.Array:
    return pa.array(
        [None if value is None else value if isinstance(value, str) else to_exact_json(value) for value in values],
        pa.string(),
    )


def _joined(tables: list[pa.Table]) -> pa.Table:
    """The tables as one; a column that has types without one in common is JSON text in all of them."""
    try:
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    except (pa.ArrowException, TypeError):
        pass
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        having = [table for table in tables if name in table.column_names]
        try:
            pa.concat_tables([table.select([name]) for table in having], promote_options="permissive")
        except (pa.ArrowException, TypeError):
            tables = [
                table.set_column(table.column_names.index(name), name, _json_column(table.column(name).to_pylist()))
                if name in table.column_names
                else table
                for table in tables
            ]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
