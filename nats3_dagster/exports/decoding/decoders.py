"""Decoders: a message as rows of fields, or the reason why not."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from nats3_dagster.exports.decoding.base import Decoder, EachDecoder, missing_library
from nats3_dagster.exports.decoding.column import BINARY, INSTANT, TEXT, whole
from nats3_dagster.exports.decoding.json_text import json_decode
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of
from nats3_dagster.exports.decoding.writable import TOO_DEEP, writable
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.model import ExportSpec


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
    return EachDecoder(lambda message: envelope(message) | content(message), columns, ENVELOPE)


_CONTENT = {"raw": "data", "text": "text"}
ENVELOPE = {
    "subject": TEXT,
    "subject_bytes": BINARY,
    "seq": whole(64),
    "time": INSTANT,
    "time_ns": whole(64),
    "data": BINARY,
    "text": TEXT,
}


def _raw(message: Message) -> dict[Any, Any]:
    return {"data": message.data}


def _text(message: Message) -> dict[Any, Any]:
    return {"text": message.data.decode()}


def _typed(message: Message) -> dict[Any, Any]:
    """The columns that a chunk has: a timestamp to the microsecond, as all engines read it, and the nanoseconds."""
    seconds, rest = divmod(message.time_ns, SECOND_NS)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return {
        "subject": message.subject,
        "subject_bytes": message.subject_bytes,
        "seq": message.seq,
        "time": time,
        "time_ns": message.time_ns,
    }


def _full(message: Message) -> dict[Any, Any]:
    return {
        "subject": message.subject,
        "subject_bytes": message.subject_bytes,
        "seq": message.seq,
        "time": format_time(message.time_ns),
    }


def _sparse(message: Message) -> dict[Any, Any]:
    """Returns the fields without the bytes of a subject that its text gives."""
    fields = _full(message)
    return fields if fields["subject_bytes"] is not None else {n: v for n, v in fields.items() if n != "subject_bytes"}


def _msgpack() -> Callable[[Message], dict[Any, Any]]:
    try:
        import msgpack
    except ImportError:
        raise missing_library("msgpack") from None

    def decode(message: Message) -> dict[Any, Any]:
        try:
            value = msgpack.unpackb(message.data, strict_map_key=False, timestamp=3)
        except msgpack.StackError:
            raise Undecodable(TOO_DEEP) from None
        except (msgpack.UnpackException, ValueError, TypeError, OverflowError) as error:
            raise Undecodable(f"The MessagePack does not fit: {reason_of(error)}") from None
        if not isinstance(value, dict):
            raise Undecodable(f"The MessagePack is no map: {type(value).__name__}")
        return writable(value)

    return decode
