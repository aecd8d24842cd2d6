"""Avro: records by a schema, and the types of its fields."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.base import EachDecoder, missing_library
from nats3_dagster.exports.decoding.column import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    JSON,
    LOCAL,
    TEXT,
    TIME,
    TRUTH,
    Column,
    decimal,
    list_of,
    map_of,
    struct_of,
    whole,
)
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of
from nats3_dagster.exports.decoding.writable import TOO_DEEP, writable

# What a message of Avro's single-object encoding begins with; the schema's fingerprint of 8 bytes follows.
_MARK = b"\xc3\x01"
_TYPES: Mapping[str, Column] = {
    "null": Column(pa.string(), lambda value: None),
    "boolean": TRUTH,
    "int": whole(32),
    "long": whole(64),
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "fixed": BINARY,
    "string": TEXT,
    "enum": TEXT,
}
# Logical types that the reader gives as values of their own.
_LOGICAL: Mapping[str, Column] = {
    "int-date": DATE,
    "int-time-millis": TIME,
    "long-time-micros": TIME,
    "long-timestamp-millis": INSTANT,
    "long-timestamp-micros": INSTANT,
    "long-local-timestamp-millis": LOCAL,
    "long-local-timestamp-micros": LOCAL,
    "string-uuid": TEXT,
}


def avro_decoder(schema: bytes) -> EachDecoder:
    """The decoder for a content of the schema's file. Raises OperatorError."""
    try:
        from fastavro import parse_schema, schemaless_reader
        from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form
    except ImportError:
        raise missing_library("fastavro") from None

    try:
        document = json.loads(schema)
        named: dict[str, Any] = {}
        parsed: Any = parse_schema(document, named)
        mark = _MARK + bytes.fromhex(fingerprint(to_parsing_canonical_form(document), "CRC-64-AVRO"))[::-1]
    except (ValueError, TypeError, KeyError, AttributeError, SchemaParseException, UnknownType) as error:
        raise OperatorError(
            f"The schema is not an Avro schema: {reason_of(error)}", "Correct the file", field="schema"
        ) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise OperatorError("The Avro schema is not a record", "Rows have fields; use a record", field="schema")

    def read(data: bytes) -> dict[str, Any]:
        stream = BytesIO(data)
        try:
            value: Any = schemaless_reader(stream, parsed, None)
        except RecursionError:
            raise Undecodable(TOO_DEEP) from None
        except (
            EOFError,
            LookupError,
            ValueError,
            TypeError,
            ArithmeticError,
            StopIteration,
            AssertionError,
            MemoryError,
        ) as error:
            raise Undecodable(f"The Avro schema does not fit: {reason_of(error)}") from None
        if rest := len(data) - stream.tell():
            raise Undecodable(f"The Avro schema does not fit: {rest} bytes are left over")
        return writable(value)

    def decode(message: Message) -> dict[str, Any]:
        return read(message.data.removeprefix(mark))

    types = {field["name"]: _column(field["type"], named, (parsed["name"],)) for field in parsed["fields"]}
    return EachDecoder(decode, tuple(types), types)


def _column(type_: Any, named: Mapping[str, Any], inside: tuple[str, ...]) -> Column:
    """The column of an Avro type; `inside`: the names of the records around it. What is in itself, and what may have
    one type or another, is JSON."""
    if isinstance(type_, list):
        branches = [branch for branch in type_ if branch != "null"]
        return _column(branches[0], named, inside) if len(branches) == 1 else JSON if branches else _TYPES["null"]
    if isinstance(type_, str):
        if type_ in _TYPES:
            return _TYPES[type_]
        return JSON if type_ in inside or type_ not in named else _column(named[type_], named, inside)
    kind = type_["type"]
    if isinstance(kind, dict | list):
        return _column(kind, named, inside)
    if kind == "array":
        return list_of(_column(type_["items"], named, inside))
    if kind == "map":
        return map_of(_column(type_["values"], named, inside))
    if kind in ("record", "error"):
        around = (*inside, type_["name"])
        return struct_of({field["name"]: _column(field["type"], named, around) for field in type_["fields"]})
    logical = type_.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return decimal(type_["precision"], type_.get("scale", 0))
    return _LOGICAL.get(f"{kind}-{logical}") or _column(kind, named, inside)
