"""Parquet files: rows of fields as columns, by the types of a schema, or whatever the types of their values.

Invariant: a row that was prepared is written; no value of it fails the file.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.exports.decoding.column import MAX_LEVELS, Column, levels
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable
from nats3_dagster.exports.formats.values import PENDING_ROWS, check_columns, to_text


class ParquetFiles:
    """Parquet. A column without a type, whose values have none in common, is JSON text."""

    whole = False

    def __init__(self, columns: Sequence[str], compression: str, types: Mapping[str, Column] | None = None) -> None:
        """`types`: of the columns that a schema says."""
        self._columns = tuple(columns)
        self._compression = compression
        self._types = types or {}

    def prepare(self, message: Message, row: Row, /) -> dict[str, Any]:
        """Raises Undecodable."""
        fields = row.fields
        if self._columns:
            fields = {name: fields.get(name) for name in self._columns}
        elif not fields:
            raise Undecodable("The row has no fields, and Parquet needs one")
        else:
            check_columns(fields)
        if not self._types:
            return fields
        types = self._types
        return {name: types[name].of(value) if name in types else value for name, value in fields.items()}

    def new_file(self) -> "ParquetFile":
        return ParquetFile(self._compression, {name: column.type for name, column in self._types.items()})


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
        table = _joined(self._tables)
        for at, column in enumerate(table.columns):
            if _is_bare(column.type):
                table = table.set_column(at, table.column_names[at], _filled_column(column))
        sink = BytesIO()
        pq.write_table(table, sink, compression=self._compression)
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
        return _text_column(values)
    # A number that is not exact in 64 bits must not become one that is only near it.
    mixed = pa.types.is_floating(column.type) and any(type(value) is int and abs(value) > 2**53 for value in values)
    return _text_column(values) if mixed or levels(column.type) > MAX_LEVELS else column


def _text_column(values: list[Any]) -> pa.Array:
    return pa.array([None if value is None else to_text(value) for value in values], pa.string())


def _is_bare(type_: pa.DataType) -> bool:
    """True if the type has an object without any field, which no file can have."""
    if pa.types.is_struct(type_) and not type_.num_fields:
        return True
    return any(_is_bare(type_.field(at).type) for at in range(type_.num_fields))


def _filled_column(column: pa.ChunkedArray) -> pa.Array:
    """The column with the text {} for objects without fields."""
    return pa.array([_filled(value, column.type) for value in column.to_pylist()], _filled_type(column.type))


def _filled(value: Any, type_: pa.DataType) -> Any:
    if value is None or not _is_bare(type_):
        return value
    if pa.types.is_list(type_):
        return [_filled(each, type_.value_type) for each in value]
    return {field.name: _filled(value[field.name], field.type) for field in type_} if type_.num_fields else "{}"


def _filled_type(type_: pa.DataType) -> pa.DataType:
    if not _is_bare(type_):
        return type_
    if pa.types.is_list(type_):
        return pa.list_(_filled_type(type_.value_type))
    fields = [(field.name, _filled_type(field.type)) for field in type_]
    return pa.struct(fields) if fields else pa.string()


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
                table.set_column(table.column_names.index(name), name, _text_column(table.column(name).to_pylist()))
                if name in table.column_names
                else table
                for table in tables
            ]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
