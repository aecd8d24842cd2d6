"""Decoders: a message as rows of fields, or the reason why not."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable, reason_of
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.model import ExportSpec


class Decoder(Protocol):
    """What every decoder is."""

    # The fields that its rows can have, in order, where a schema says them.
    columns: tuple[str, ...]

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        """For each message its rows, none for one that is dropped on purpose, or why it cannot be decoded."""
        ...


def decoder_of(spec: ExportSpec, schema: bytes | None) -> Decoder:
    """The decoder of an export; `schema` is the content of its file. Raises OperatorError."""
    if ":" in spec.decode:
        from nats3_dagster.exports.decoding.own_decoder import OwnDecoder

        return OwnDecoder(spec.decode)
    if spec.decode in ("avro", "protobuf") or (spec.decode == "json" and schema is not None):
        from nats3_dagster.exports.decoding import schemas

        return schemas.decoder_of(spec, schema or b"")
    if spec.decode == "msgpack":
        return EachDecoder(_msgpack())
    if spec.decode == "json":
        return EachDecoder(json_decode(exact=spec.format == "csv"))
    envelope = {"parquet": _typed, "csv": _full}.get(spec.format, _sparse)
    time = ("time", "time_ns") if spec.format == "parquet" else ("time",)
    columns = ("subject", "subject_bytes", "seq", *time, _CONTENT[spec.decode])
    content = _raw if spec.decode == "raw" else _text
    return EachDecoder(lambda message: envelope(message) | content(message), columns)


class EachDecoder:
    """Decodes message by message with a function that gives the fields, or raises."""

    def __init__(self, decode: Callable[[Message], dict[Any, Any]], columns: tuple[str, ...] = ()) -> None:
        self.columns = columns
        self._decode = decode

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        return [self._one(message) for message in messages]

    def _one(self, message: Message) -> list[Row] | Undecodable:
        try:
            return [Row(None, self._decode(message))]
        except Undecodable as error:
            return error
        except (ValueError, RecursionError, TypeError, OverflowError) as error:
            return Undecodable(reason_of(error))


_WHITE = " \t\r\n"
_CONTENT = {"raw": "data", "text": "text"}


def _raw(message: Message) -> dict[Any, Any]:
    return {"data": message.data}


def _text(message: Message) -> dict[Any, Any]:
    return {"text": message.data.decode()}


def _typed(message: Message) -> dict[Any, Any]:
    """The columns that a chunk has: a timestamp to the microsecond, as all engines read it, and the nanoseconds."""
    seconds, rest = divmod(message.time_ns, SECOND_NS)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return {
        "subject": message.subject, "subject_bytes": message.subject_bytes, "seq": message.seq, "time": time,
        "time_ns": message.time_ns,
    }  # fmt: skip


def _full(message: Message) -> dict[Any, Any]:
    return {
        "subject": message.subject, "subject_bytes": message.subject_bytes, "seq": message.seq,
        "time": format_time(message.time_ns),
    }  # fmt: skip


def _sparse(message: Message) -> dict[Any, Any]:
    """Without the bytes of a subject that its text gives."""
    fields = _full(message)
    return fields if fields["subject_bytes"] is not None else {n: v for n, v in fields.items() if n != "subject_bytes"}


def json_decode(*, exact: bool) -> Callable[[Message], dict[Any, Any]]:
    """The fields of a JSON object. `exact`: numbers with a fraction as decimals, by the digits of the payload."""
    decoder: Any = json.JSONDecoder(parse_float=Decimal if exact else None, parse_constant=_no_constant)
    # What `decode` calls between two regular expressions for the white space, which take as long as a small object.
    scan = decoder.scan_once

    def decode(message: Message) -> dict[Any, Any]:
        text = message.data.decode().strip(_WHITE)
        try:
            value, end = scan(text, 0)
        except StopIteration as stop:
            raise json.JSONDecodeError("Expecting value", text, stop.value) from None
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if not isinstance(value, dict):
            raise Undecodable(f"The JSON is no object: {type(value).__name__}")
        return value

    return decode


def _no_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is not JSON")


def _msgpack() -> Callable[[Message], dict[Any, Any]]:
    try:
        import msgpack
    except ImportError:
        raise lacking("msgpack") from None

    def decode(message: Message) -> dict[Any, Any]:
        try:
            value = msgpack.unpackb(message.data, strict_map_key=False, timestamp=3)
        except (msgpack.UnpackException, ValueError) as error:
            raise Undecodable(reason_of(error)) from None
        if not isinstance(value, dict):
            raise Undecodable(f"The MessagePack is no map: {type(value).__name__}")
        return value

    return decode


def lacking(library: str) -> OperatorError:
    """The error where a library of the extra `exports` is missing."""
    return OperatorError(
        f"The decoder needs {library}, which is not installed", "pip install 'nats3-dagster[exports]'", field="decode"
    )
