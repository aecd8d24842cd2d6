"""Decoders with a schema: JSON Schema, Avro and Protobuf."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.base import EachDecoder, json_decode, missing_library
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of
from nats3_dagster.model import ExportSpec

# What a message of Avro's single-object encoding begins with; the schema's fingerprint of 8 bytes follows.
_AVRO_MARK = b"\xc3\x01"


def read_schema(spec: ExportSpec) -> bytes | None:
    """The content of the schema's file; None where the export has none. Raises OperatorError."""
    if spec.schema is None:
        return None
    path = Path(spec.schema.partition("#")[0] if spec.decode == "protobuf" else spec.schema)
    try:
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(
            f"The schema {path} cannot be read: {error.strerror}", "Name a file that is there", field="schema"
        ) from None


def decoder_of(spec: ExportSpec, schema: bytes) -> EachDecoder:
    """The decoder for a content of the schema's file. Raises OperatorError."""
    if spec.decode == "avro":
        return _avro(schema)
    if spec.decode == "protobuf":
        return _protobuf(schema, (spec.schema or "").partition("#")[2])
    return _json(spec, schema)


def _wrong(kind: str, error: BaseException) -> OperatorError:
    return OperatorError(f"The schema is not {kind}: {reason_of(error)}", "Correct the file", field="schema")


def _json(spec: ExportSpec, schema: bytes) -> EachDecoder:
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise missing_library("jsonschema") from None

    try:
        document = json.loads(schema)
        kind = validator_for(document, Draft202012Validator)
        kind.check_schema(document)
        # A registry of its own: a reference to another document is never fetched from the internet.
        validator: Any = kind(document, registry=Registry())
    except (ValueError, SchemaError, TypeError, AttributeError) as error:
        raise _wrong("a JSON Schema", error) from None
    decode_json, plain_json = json_decode(exact=spec.format == "csv"), json_decode(exact=False)

    def decode(message: Message) -> dict[Any, Any]:
        try:
            error = next(iter(validator.iter_errors(plain_json(message))), None)
        except Unresolvable as unresolvable:
            raise OperatorError(
                f"The schema refers to what is not in it: {unresolvable}", "Put all of it in one file", field="schema"
            ) from None
        if error is not None:
            raise Undecodable(f"The schema does not fit at {error.json_path}: {error.message}"[:500])
        return decode_json(message)

    properties = document.get("properties", {}) if isinstance(document, dict) else {}
    return EachDecoder(decode, tuple(properties))


def _avro(schema: bytes) -> EachDecoder:
    try:
        from fastavro import parse_schema, schemaless_reader
        from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form
    except ImportError:
        raise missing_library("fastavro") from None

    try:
        document = json.loads(schema)
        parsed: Any = parse_schema(document)
        mark = _AVRO_MARK + bytes.fromhex(fingerprint(to_parsing_canonical_form(document), "CRC-64-AVRO"))[::-1]
    except (ValueError, TypeError, KeyError, AttributeError, SchemaParseException, UnknownType) as error:
        raise _wrong("an Avro schema", error) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise OperatorError("The Avro schema is not a record", "Rows have fields; use a record", field="schema")

    def read(data: bytes) -> dict[Any, Any]:
        stream = BytesIO(data)
        try:
            value: Any = schemaless_reader(stream, parsed, None)
        except (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, StopIteration) as error:
            raise Undecodable(f"The Avro schema does not fit: {reason_of(error)}") from None
        if rest := len(data) - stream.tell():
            raise Undecodable(f"The Avro schema does not fit: {rest} bytes are left over")
        return value

    def decode(message: Message) -> dict[Any, Any]:
        if message.data.startswith(mark):
            return read(message.data[len(mark) :])
        return read(message.data)

    return EachDecoder(decode, tuple(field["name"] for field in parsed["fields"]))


def _protobuf(schema: bytes, name: str) -> EachDecoder:
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass
    except ImportError:
        raise missing_library("protobuf") from None

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(schema).file:
            pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue]
        descriptor: Any = pool.FindMessageTypeByName(name)
        kind: Callable[..., Any] = GetMessageClass(descriptor)
    except KeyError:
        what = f"The descriptor set has no message {name}"
        raise OperatorError(what, "Name it with its package", field="schema") from None
    except (DecodeError, TypeError, ValueError) as error:
        raise _wrong("a descriptor set with all that it imports", error) from None

    def decode(message: Message) -> dict[Any, Any]:
        value = kind()
        try:
            value.ParseFromString(message.data)
            return MessageToDict(value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        except DecodeError as error:
            raise Undecodable(f"The Protobuf message does not fit: {reason_of(error)}") from None

    return EachDecoder(decode, tuple(field.name for field in descriptor.fields))
