"""Protobuf: messages by a descriptor set, and the types of their fields.

Files that keep types get values of these types; JSON and CSV get Protobuf's own JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.base import EachDecoder, missing_library
from nats3_dagster.exports.decoding.column import (
    BINARY,
    DOUBLE,
    FLOAT,
    JSON,
    TEXT,
    TRUTH,
    Column,
    list_of,
    map_of,
    struct_of,
    whole,
)
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of

# Messages that Protobuf's JSON writes as one value: text, or JSON of any form. The wrappers are as what they wrap.
_OWN = "google.protobuf."
_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPERS = frozenset(f"{_OWN}{name}Value" for name in _WRAPPED)
# Kinds of values, as descriptors number them (cpp_type). Bytes have the kind of text, and a type of their own.
_KINDS: Mapping[int, Column] = {
    1: whole(32),
    2: whole(64),
    3: whole(32, signed=False),
    4: whole(64, signed=False),
    5: DOUBLE,
    6: FLOAT,
    7: TRUTH,
    9: TEXT,
}
_ENUM, _MESSAGE, _BYTES = 8, 10, 12
ToDict = Callable[[Any], Any]


def protobuf_decoder(schema: bytes, name: str, *, keeps_types: bool) -> EachDecoder:
    """The decoder for a content of the schema's file and the message of this name. Raises OperatorError."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.json_format import Error, MessageToDict
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
        raise OperatorError(
            f"The schema is not a descriptor set with all that it imports: {reason_of(error)}",
            "Correct the file",
            field="schema",
        ) from None

    def as_json(value: Any) -> Any:
        return MessageToDict(
            value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool
        )

    def decode(message: Message) -> dict[str, Any]:
        value = kind()
        try:
            value.ParseFromString(message.data)
            return _native(value, as_json, ()) if keeps_types else as_json(value)
        except (DecodeError, Error, ValueError, TypeError, KeyError, ArithmeticError) as error:
            raise Undecodable(f"The Protobuf message does not fit: {reason_of(error)}") from None

    types = _columns(descriptor, ()) if keeps_types else {}
    return EachDecoder(decode, tuple(field.name for field in descriptor.fields), types)


def _columns(descriptor: Any, inside: tuple[str, ...]) -> dict[str, Column]:
    around = (*inside, descriptor.full_name)
    return {field.name: _column(field, around) for field in descriptor.fields}


def _column(field: Any, inside: tuple[str, ...]) -> Column:
    """The column of a field; `inside`: the names of the messages around it."""
    if _is_map(field):
        names, values = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return map_of(_single(values, inside), _single(names, inside))
    single = _single(field, inside)
    return list_of(single) if _is_list(field) else single


def _single(field: Any, inside: tuple[str, ...]) -> Column:
    if field.cpp_type != _MESSAGE:
        return BINARY if field.type == _BYTES else _KINDS.get(field.cpp_type, TEXT)
    kind = field.message_type
    if kind.full_name in _WRAPPERS:
        return _single(kind.fields_by_name["value"], inside)
    return JSON if _is_json(kind, inside) else struct_of(_columns(kind, inside))


def _is_json(kind: Any, inside: tuple[str, ...]) -> bool:
    """True for a message that is in itself, has no fields, or has a form of its own in JSON."""
    return kind.full_name in inside or not kind.fields or kind.full_name.startswith(_OWN)


def _is_map(field: Any) -> bool:
    return bool(field.cpp_type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _is_list(field: Any) -> bool:
    # Protobuf 5 has the label alone, and later versions warn of it.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _native(message: Any, as_json: ToDict, inside: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a message by their names; None for one that is not there and could be."""
    around = (*inside, message.DESCRIPTOR.full_name)
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            values = field.message_type.fields_by_name["value"]
            row[field.name] = {name: _value(values, value[name], as_json, around) for name in value}
        elif _is_list(field):
            row[field.name] = [_value(field, each, as_json, around) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _value(field, value, as_json, around)
    return row


def _value(field: Any, value: Any, as_json: ToDict, inside: tuple[str, ...]) -> Any:
    if field.cpp_type == _MESSAGE:
        kind = field.message_type
        if kind.full_name in _WRAPPERS:
            return _value(kind.fields_by_name["value"], value.value, as_json, inside)
        return as_json(value) if _is_json(kind, inside) else _native(value, as_json, inside)
    if field.cpp_type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
