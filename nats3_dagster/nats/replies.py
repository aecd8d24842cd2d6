"""Replies: messages and states as a server writes them on the wire (ADR-31; nats-server 2.15, stream.go). Pure."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from nats3_dagster.hours import format_time
from nats3_dagster.model import Message
from nats3_dagster.subjects import encoded

_TYPE = "io.nats.jetstream.api.v1."


def status(text: str, fields: Mapping[str, int] | None = None) -> bytes:
    """A header block of a status and nothing else, as `404 Message Not Found`."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items())
    return f"NATS/1.0 {text}\r\n{lines}\r\n".encode()


def message_headers(stream: str, message: Message, *, pending: tuple[int, int] | None = None) -> bytes:
    """The message's own headers, and after them those of a direct get. `pending`: in a batch, the number of messages
    after it, and the sequence of the one before it."""
    block = message.headers or b"NATS/1.0\r\n\r\n"
    subject = message.subject_bytes or encoded(message.subject)
    lines = [
        b"Nats-Stream: " + stream.encode(),
        b"Nats-Subject: " + subject,
        b"Nats-Sequence: %d" % message.seq,
        b"Nats-Time-Stamp: " + shown_time(message.time_ns).encode(),
    ]
    if pending is not None:
        lines += [b"Nats-Num-Pending: %d" % pending[0], b"Nats-Last-Sequence: %d" % pending[1]]
    return block[:-2] + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def message_document(message: Message, *, with_headers: bool) -> bytes:
    """The answer of STREAM.MSG.GET."""
    subject = message.subject_bytes.decode(errors="replace") if message.subject_bytes else message.subject
    body: dict[str, Any] = {"subject": subject, "seq": message.seq}
    if message.headers and with_headers:
        body["hdrs"] = base64.b64encode(message.headers).decode()
    if message.data:
        body["data"] = base64.b64encode(message.data).decode()
    return document("stream_msg_get_response", message={**body, "time": shown_time(message.time_ns)})


def document(kind: str, **body: object) -> bytes:
    """An answer of the API of this kind."""
    return json.dumps({"type": f"{_TYPE}{kind}", **body}, separators=(",", ":")).encode()


def error(kind: str, code: int, err_code: int, description: str) -> bytes:
    """An answer that is an error: `code` as in HTTP, `err_code` as nats-server numbers them."""
    return document(kind, error={"code": code, "err_code": err_code, "description": description})


def shown_time(time_ns: int) -> str:
    """RFC 3339 as Go writes it: without zeros at the end of the fraction."""
    text = format_time(time_ns).removesuffix("Z")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
