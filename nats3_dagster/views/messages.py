"""Messages as JSON documents and as the `nats` command prints them. Keys are an interface."""

import base64
from typing import Any

from nats3_dagster.archive.read.answers import Page
from nats3_dagster.archive.read.references import Reference
from nats3_dagster.model import Message
from nats3_dagster.views.values import stamp_of, time_of


def message(message: Message, *, text: bool = False) -> dict[str, Any]:
    """Headers and payload in base64. With `text` they are text where they are UTF-8; where not, they stay in base64,
    under the names `headers_base64` and `data_base64`."""
    document = {
        "seq": message.seq, "time": time_of(message.time_ns), "subject": message.subject,
        "subject_bytes": _base64(message.subject_bytes), "stream": message.incarnation.stream,
        "incarnation": message.incarnation.token,
    }  # fmt: skip
    for name, value in (("headers", message.headers), ("data", message.data)):
        document |= _as_text(name, value) if text else {name: _base64(value)}
    return document


def as_nats_prints(message: Message) -> bytes:
    """A line about the message, its headers, and its payload as it is; each with an empty line behind it."""
    first = f"[{message.seq}] Subject: {_on_a_line(message.subject)} Received: {time_of(message.time_ns)}\n"
    lines = [line for line in (message.headers or b"").split(b"\r\n")[1:] if line]
    headers = b"".join(b"  " + line + b"\n" for line in lines)
    payload = message.data if message.data.endswith(b"\n") else message.data + b"\n"
    return first.encode() + b"\n" + (headers + b"\n" if headers else b"") + payload + b"\n"


def page(page: Page) -> dict[str, Any]:
    return {
        "messages": [message(one) for one in page.messages], "next": page.cursor if page.has_more else None,
        "cursor": page.cursor,
        "removed": [
            {"replay_id": part.replay_id, "messages": part.messages, "is_exact": part.is_exact} for part in page.removed
        ],
    }  # fmt: skip


def reference(reference: Reference) -> dict[str, Any]:
    """Where the message is in the store, and how to read it from there."""
    return {
        "seq": reference.seq, "stream": reference.incarnation.stream, "incarnation": reference.incarnation.token,
        "url": reference.url,
        "expires_at": stamp_of(reference.expires_at), "note": reference.note, "bucket": reference.bucket,
        "key": reference.key, "size": reference.size, "sha256": reference.sha256,
        "row_group": reference.row_group, "first_seq": reference.first_seq, "last_seq": reference.last_seq,
        "row": reference.row, "range": [reference.group_start, reference.group_start + reference.group_bytes - 1],
        "footer_range": [reference.footer_start, reference.footer_start + reference.footer_bytes - 1],
        "how": reference.how, "python": reference.python,
    }  # fmt: skip


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _as_text(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": _base64(value)}


def _on_a_line(text: str) -> str:
    """Subjects come from strangers: nothing in them moves the cursor."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
