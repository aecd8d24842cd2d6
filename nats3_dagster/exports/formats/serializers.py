"""Serializers: rows of one file as bytes.

Invariant: what a file's bytes are follows from its rows and the export alone, so that a run that is tried again makes
the same files.
"""

import gzip
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nats3_dagster.exports.decoding.base import Decoder
from nats3_dagster.exports.decoding.message import Message, Row
from nats3_dagster.exports.formats.csv_files import CsvFiles
from nats3_dagster.exports.formats.parquet_files import ParquetFiles
from nats3_dagster.exports.formats.values import to_json
from nats3_dagster.model import ExportSpec

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3
_LENGTH = struct.Struct(">I")


class FileWriter(Protocol):
    """One file on its way."""

    def add(self, prepared: Any) -> None: ...

    def finish(self) -> bytes: ...


class Serializer(Protocol):
    """The conversion of a row, and a writer of such rows for each file."""

    # Whether rows are the whole message: then a message is once in a file, however many rows a decoder made of it.
    whole: bool

    def prepare(self, message: Message, row: Row, /) -> Any:
        """Returns the input of `FileWriter.add`. Raises Undecodable."""
        ...

    def new_file(self) -> FileWriter: ...


def serializer_of(spec: ExportSpec, stream: str, decoder: Decoder) -> Serializer:
    """The serializer of an export, for the rows of its decoder."""
    columns = spec.columns or decoder.columns
    compress = compressor_of(spec.compression)
    if spec.format == "csv":
        return CsvFiles(columns, compress, escape_formulas=spec.escape_formulas)
    if spec.format == "parquet":
        return ParquetFiles(columns, spec.compression, decoder.types)
    if spec.format == "raw":
        return LineFiles(lambda message, row: _LENGTH.pack(len(message.data)) + message.data, compress, whole=True)
    if spec.format == "messages":
        return LineFiles(lambda message, row: line_of(message.document(stream)), compress, whole=True)
    return LineFiles(_json_line if spec.decode == "json" else lambda message, row: line_of(row.fields), compress)


def line_of(document: Mapping[Any, Any]) -> bytes:
    """A document as a line of NDJSON. Raises Undecodable."""
    return to_json(document).encode() + b"\n"


def _json_line(message: Message, row: Row) -> bytes:
    """The payload itself, which is valid JSON: no number changes its digits. Line ends stand between tokens only."""
    return message.data.strip(b" \t\r\n").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def compressor_of(compression: str) -> Callable[[bytes], bytes]:
    """Returns a function that makes the bytes of a file; the same ones for the same input."""
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
