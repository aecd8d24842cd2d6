"""Decoders: a message as rows of fields, or the reason why not."""

from collections.abc import Callable
from typing import Any

from nats3_dagster.exports.decoding.base import Decoder, EachDecoder, json_decode, missing_library
from nats3_dagster.exports.decoding.message import Message, Undecodable, reason_of
from nats3_dagster.hours import format_time
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
    return EachDecoder(_raw if spec.decode == "raw" else _text, ("subject", "seq", "time", _CONTENT[spec.decode]))


_CONTENT = {"raw": "data", "text": "text"}


def _raw(message: Message) -> dict[Any, Any]:
    return _envelope(message) | {"data": message.data}


def _text(message: Message) -> dict[Any, Any]:
    return _envelope(message) | {"text": message.data.decode()}


def _envelope(message: Message) -> dict[Any, Any]:
    return {"subject": message.subject, "seq": message.seq, "time": format_time(message.time_ns)}


def _msgpack() -> Callable[[Message], dict[Any, Any]]:
    try:
        import msgpack
    except ImportError:
        raise missing_library("msgpack") from None

    def decode(message: Message) -> dict[Any, Any]:
        try:
            value = msgpack.unpackb(message.data, strict_map_key=False, timestamp=3)
        except (msgpack.UnpackException, ValueError) as error:
            raise Undecodable(reason_of(error)) from None
        if not isinstance(value, dict):
            raise Undecodable(f"The MessagePack is no map: {type(value).__name__}")
        return value

    return decode
