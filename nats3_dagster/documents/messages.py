"""Messages as documents, and as the `nats` command prints them."""

import base64
import re
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from nats3_dagster.documents.base import Document, stamp_of
from nats3_dagster.hours import format_time
from nats3_dagster.model import Message as Archived

if TYPE_CHECKING:
    # They import pyarrow, and the help of a command must not.
    from nats3_dagster.archive.read.answers import Page
    from nats3_dagster.archive.read.references import Reference
    from nats3_dagster.archive.selected.removed import Removed


# Anything but a text of printable ASCII on several lines.
_SPECIAL = re.compile(rb"[^\n\t\x20-\x7e]")


class Message(Document):
    """One archived message."""

    seq: int = Field(description="Its sequence in the stream.")
    time: str = Field(description="Its store time.", examples=["2026-11-21T07:00:00.000000000Z"])
    subject: str = Field(description="The subject; of one that is not UTF-8 its text.")
    subject_bytes: str | None = Field(description="The bytes of such a subject in base64; null for all others.")
    stream: str
    incarnation: str = Field(
        description="The life of the stream: sequences begin again with each.", examples=["20261121T075644123456789Z"]
    )
    headers: str | None = Field(description="The header block as on the wire, in base64; null for none.")
    data: str = Field(description="The payload in base64.")

    @classmethod
    def of(cls, message: Archived) -> Self:
        return cls(
            seq=message.seq,
            time=format_time(message.time_ns),
            subject=message.subject,
            subject_bytes=_base64_or_none(message.subject_bytes),
            stream=message.incarnation.stream,
            incarnation=message.incarnation.token,
            headers=_base64_or_none(message.headers),
            data=_base64(message.data),
        )


class RemovedMessages(Document):
    """Messages of a selection that were taken out of the archive on purpose."""

    reason: Literal["retired", "expired_by_policy", "erased"] = Field(
        description="retired: deleted after a replay. expired_by_policy: the archive does not keep them any longer. "
        "erased: removed for good."
    )
    replay_id: str | None = Field(description="The replay that published them before; null where none did.")
    messages: int = Field(description="How many, at most where it is not exact.")
    is_exact: bool

    @classmethod
    def of(cls, part: "Removed") -> Self:
        return cls.by_name(part)


class MessagePage(Document):
    """Messages in the order of the stream."""

    messages: list[Message]
    next: str | None = Field(description="The cursor of the next page; null after the last archived message.")
    cursor: str = Field(description="The cursor after this page, also for messages that are archived later.")
    removed: list[RemovedMessages] = Field(
        description="What the whole selection had besides, before chunks were deleted after a replay."
    )

    @classmethod
    def of(cls, page: "Page") -> Self:
        return cls(
            messages=[Message.of(one) for one in page.messages],
            next=page.cursor if page.has_more else None,
            cursor=page.cursor,
            removed=[RemovedMessages.of(part) for part in page.removed],
        )


class MessageReference(Document):
    """The place of a message in the store. Anyone with the URL can read the whole object until it expires."""

    seq: int
    stream: str
    incarnation: str
    url: str = Field(description="A presigned GET of the object; a file's URL where the store is a folder.")
    expires_at: str | None = Field(description="When the URL ends; null for a file's.")
    note: str = Field(description="What else must be known of the URL; may be empty.")
    bucket: str
    key: str
    size: int = Field(description="Bytes of the object.")
    sha256: str
    row_group: int = Field(description="Index of the row group that has the message.")
    first_seq: int = Field(description="Of the row group.")
    last_seq: int = Field(description="Of the row group.")
    row: int = Field(description="The row in the row group, from 0.")
    range: list[int] = Field(description="First and last byte of the row group in the object.")
    footer_range: list[int] = Field(description="First and last byte of the footer in the object.")
    how: str = Field(description="How to read the message, in words.")
    python: str = Field(description="A program that prints it; it needs pyarrow only.")

    @classmethod
    def of(cls, reference: "Reference") -> Self:
        return cls(
            seq=reference.seq,
            stream=reference.incarnation.stream,
            incarnation=reference.incarnation.token,
            url=reference.url,
            expires_at=stamp_of(reference.expires_at),
            note=reference.note,
            bucket=reference.bucket,
            key=reference.key,
            size=reference.size,
            sha256=reference.sha256,
            row_group=reference.row_group,
            first_seq=reference.first_seq,
            last_seq=reference.last_seq,
            row=reference.row,
            range=[reference.group_start, reference.group_start + reference.group_bytes - 1],
            footer_range=[reference.footer_start, reference.footer_start + reference.footer_bytes - 1],
            how=reference.how,
            python=reference.python,
        )


def with_text(message: Archived) -> dict[str, Any]:
    """The document with headers and payload as text where they are UTF-8; where not, they stay in base64, under the
    names `headers_base64` and `data_base64`."""
    document = Message.of(message).plain()
    for name, value in (("headers", message.headers), ("data", message.data)):
        encoded = document.pop(name)
        try:
            document[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            document[f"{name}_base64"] = encoded
    return document


def as_nats_prints(message: Archived) -> bytes:
    """Returns a line about the message, its headers, and its payload; each followed by an empty line. It is for people:
    what is no text is spelled out."""
    first = f"[{message.seq}] Subject: {_on_a_line(message.subject)} Received: {format_time(message.time_ns)}\n"
    lines = [line for line in (message.headers or b"").split(b"\r\n")[1:] if line]
    headers = b"".join(b"  " + spelled_out(line) + b"\n" for line in lines)
    payload = spelled_out(message.data if message.data.endswith(b"\n") else message.data + b"\n", keep="\n\t")
    return first.encode() + b"\n" + (headers + b"\n" if headers else b"") + payload + b"\n"


def spelled_out(data: bytes, *, keep: str = "\t") -> bytes:
    """The text without what could move a terminal's cursor: control characters, but those to keep, and bytes that are
    not UTF-8, are written as \\xNN."""
    if not _SPECIAL.search(data):
        return data
    text = data.decode(errors="surrogateescape")
    return "".join(c if c in keep or c.isprintable() else _spelled(c) for c in text).encode()


def _spelled(character: str) -> str:
    number = ord(character)
    number -= 0xDC00 if 0xDC80 <= number <= 0xDCFF else 0  # a byte that is not UTF-8
    return f"\\x{number:02x}"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _base64_or_none(value: bytes | None) -> str | None:
    return None if value is None else _base64(value)


def _on_a_line(text: str) -> str:
    """Subjects come from strangers: nothing in them moves the cursor."""
    return "".join(c if c.isprintable() else _spelled(c) for c in text)
