"""Serializers: rows of one file as bytes.

Invariant: what a file's bytes are follows from its rows and the export alone, so that a run that is tried again makes
the same files.
"""

import csv
import gzip
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nats3_dagster.exports.json_lines import bytes_of
from nats3_dagster.exports.message import Message, Row, Undecodable
from nats3_dagster.exports.values import AS_THEY_ARE, to_exact_json, to_field, to_json
from nats3_dagster.model import ExportSpec

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3
# Rows that a file keeps as Python objects before they become Arrow's.
_PENDING_ROWS = 20_000
_LENGTH = struct.Struct(">I")


class FileWriter(Protocol):
    """One file on its way."""

    def add(self, prepared: Any) -> None: ...

    def finish(self) -> bytes: ...


class Serializer(Protocol):
    """What a row becomes, and a writer of such rows for each file."""

    # Whether rows are the whole message: then a message is once in a file, however many rows a decoder made of it.
    whole: bool

    def prepare(self, message: Message, row: Row, /) -> Any:
        """What `FileWriter.add` takes. Raises Undecodable."""
        ...

    def new_file(self) -> FileWriter: ...


def serializer_of(spec: ExportSpec, stream: str, columns: tuple[str, ...]) -> Serializer:
    """The serializer of an export; `columns` are those of its decoder."""
    compress = compressor_of(spec.compression)
    if spec.format == "csv":
        return CsvFiles(spec.columns or columns, compress)
    if spec.format == "parquet":
        return ParquetFiles(spec.columns or columns, spec.compression)
    if spec.format == "raw":
        return LineFiles(lambda message, row: _LENGTH.pack(len(message.data)) + message.data, compress, whole=True)
    if spec.format == "messages":
        return LineFiles(lambda message, row: line_of(message.document(stream)), compress, whole=True)
    return LineFiles(_json_line if spec.decode == "json" else lambda message, row: line_of(row.fields), compress)


def line_of(document: Mapping[Any, Any]) -> bytes:
    """A document as a line of NDJSON. Raises Undecodable."""
    try:
        return to_json(document).encode() + b"\n"
    except UnicodeEncodeError:
        raise Undecodable("The row has text that is not Unicode") from None


def _json_line(message: Message, row: Row) -> bytes:
    """The payload itself, which is valid JSON: no number changes its digits. Line ends stand between tokens only."""
    return message.data.strip(b" \t\r\n").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def compressor_of(compression: str) -> Callable[[bytes], bytes]:
    """What makes the bytes of a file; the same ones for the same input."""
    if compression == "gzip":
        return lambda data: gzip.compress(data, _GZIP_LEVEL, mtime=0)
    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress
    return lambda data: data


class LineFiles:
    """Files of records one after the other."""

    def __init__(
        self, prepare: Callable[[Message, Row], bytes], compress: Callable[[bytes], bytes], *, whole: bool = False
    ) -> None:
        self.whole = whole
        self._prepare, self._compress = prepare, compress

    def prepare(self, message: Message, row: Row, /) -> bytes:
        return self._prepare(message, row)

    def new_file(self) -> "LineFile":
        return LineFile(self._compress)


class LineFile:
    """Takes bytes."""

    def __init__(self, compress: Callable[[bytes], bytes]) -> None:
        self._compress = compress
        self._parts: list[Any] = []

    def add(self, prepared: Any) -> None:
        self._parts.append(prepared)

    def finish(self) -> bytes:
        return self._compress(b"".join(self._parts))


class CsvFiles:
    """CSV with a line of names, fields quoted where they must be (RFC 4180), lines that end with a line feed."""

    whole = False

    def __init__(self, columns: Sequence[str], compress: Callable[[bytes], bytes]) -> None:
        self._columns = tuple(columns)
        self._compress = compress

    def prepare(self, message: Message, row: Row, /) -> dict[str, Any]:
        fields = row.fields
        if self._columns:
            return {name: to_field(fields[name]) for name in self._columns if name in fields}
        return {
            name if type(name) is str else str(name): value if type(value) in AS_THEY_ARE else to_field(value)
            for name, value in fields.items()
        }

    def new_file(self) -> "CsvFile":
        return CsvFile(self._columns, self._compress)


class CsvFile:
    """Takes fields by name. Without columns it has the names of all rows, in the order in which they first came."""

    def __init__(self, columns: tuple[str, ...], compress: Callable[[bytes], bytes]) -> None:
        self._columns = dict.fromkeys(columns)
        self._fixed = bool(columns)
        self._compress = compress
        # Lines without their ends, each part with the number of columns that were known when they came.
        self._parts: list[tuple[int, pa.Array]] = []
        self._pending: list[str] = []
        self._write = csv_writer(self._pending).writerow

    def add(self, prepared: dict[str, Any]) -> None:
        if not self._fixed and not self._columns.keys() >= prepared.keys():
            self.columns_with(prepared)
        self._write(map(prepared.get, self._columns))
        if len(self._pending) == _PENDING_ROWS:
            self._flush()

    def columns_with(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns, once a row of these names is in the file."""
        new = {} if self._fixed else {name: None for name in names if name not in self._columns}
        if new:
            self._flush()
            self._columns |= new
        return tuple(self._columns)

    def add_lines(self, lines: pa.Array) -> None:
        """Lines with all columns (binary), without their ends."""
        self._flush()
        self._parts.append((len(self._columns), lines))

    def finish(self) -> bytes:
        self._flush()
        head: list[str] = []
        csv_writer(head).writerow(self._columns)
        out = [head[0][:-2].encode("utf-8", "surrogatepass") + b"\n"]
        for columns, lines in self._parts:
            # Columns that came later are empty in these lines.
            ends = pa.scalar(b"," * (len(self._columns) - max(columns, 1)) + b"\n", pa.large_binary())
            if len(self._columns) == 1:
                lines = pc.if_else(pc.equal(pc.binary_length(lines), 0), pa.scalar(b'""', lines.type), lines)
            lines = lines.cast(pa.large_binary())
            out.append(bytes_of(pc.binary_join_element_wise(lines, ends, pa.scalar(b"", pa.large_binary()))))
        return self._compress(b"".join(out))

    def _flush(self) -> None:
        if self._pending:
            self._parts.append((len(self._columns), pa.array(csv_texts(self._pending), pa.large_binary())))
            self._pending.clear()


def csv_writer(lines: list[str]) -> Any:
    """A writer of CSV that appends each row to `lines`; `csv_texts` makes bytes of them."""
    # It quotes a field with a character of its line end, and both may stand in a field.
    sink: Any = SimpleNamespace(write=lines.append)
    return csv.writer(sink, lineterminator="\r\n")


def csv_texts(lines: Sequence[str]) -> list[bytes]:
    """Rows of `csv_writer` without their ends. The writer quotes a field that is empty and alone; here it is empty."""
    return [b"" if line == '""\r\n' else line[:-2].encode("utf-8", "surrogatepass") for line in lines]


class ParquetFiles:
    """Parquet. A column whose values have no type in common is JSON text."""

    whole = False

    def __init__(self, columns: Sequence[str], compression: str) -> None:
        self._columns = tuple(columns)
        self._compression = compression

    def prepare(self, message: Message, row: Row, /) -> dict[str, Any]:
        fields = {str(name): value for name, value in row.fields.items()}
        if self._columns:
            return {name: fields.get(name) for name in self._columns}
        if not fields:
            raise Undecodable("The row has no fields, and Parquet needs one")
        return fields

    def new_file(self) -> "ParquetFile":
        return ParquetFile(self._compression)


class ParquetFile:
    """Takes fields by name."""

    def __init__(self, compression: str) -> None:
        self._compression = compression
        self._pending: list[dict[str, Any]] = []
        self._tables: list[pa.Table] = []

    def add(self, prepared: dict[str, Any]) -> None:
        self._pending.append(prepared)
        if len(self._pending) == _PENDING_ROWS:
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
        columns = [_column([row.get(name) for row in self._pending]) for name in names]
        self._tables.append(pa.Table.from_arrays(columns, names=names))
        self._pending = []


def _column(values: list[Any]) -> pa.Array:
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


