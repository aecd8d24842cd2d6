"""A message as decoders and serializers see it, and why one cannot be exported."""

import base64
from typing import Any, NamedTuple

from nats3_dagster.hours import format_time

MAX_REASON = 500


class Undecodable(Exception):
    """The reason why a message goes to the file of undecoded messages. It never leaves this package."""


class Message(NamedTuple):
    """One archived message."""

    seq: int
    time_ns: int
    subject: str
    headers: bytes | None  # the block as on the wire
    data: bytes
    # The subject with a lone surrogate for each byte that is not UTF-8; None where it is `subject`, its text.
    exact: str | None = None

    @property
    def exact_subject(self) -> str:
        """The subject, which no other subject equals: two may have one text."""
        return self.subject if self.exact is None else self.exact

    @property
    def subject_bytes(self) -> bytes | None:
        """The bytes of a subject that is not UTF-8; None of any other."""
        return None if self.exact is None else self.exact.encode("utf-8", "surrogateescape")

    def header_fields(self, errors: str = "replace") -> dict[str, str]:
        """The headers by name; of a name that is there again, the first value. `errors`: as `bytes.decode` has it."""
        fields: dict[str, str] = {}
        for line in (self.headers or b"").decode("utf-8", errors).split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                fields.setdefault(name, value.strip(" \t"))
        return fields

    def document(self, stream: str) -> dict[str, Any]:
        """The whole message for JSON: header block, payload, and a subject that is not UTF-8, in base64."""
        raw = self.subject_bytes
        return {
            "seq": self.seq,
            "time": format_time(self.time_ns),
            "subject": self.subject,
            **({} if raw is None else {"subject_bytes": base64.b64encode(raw).decode()}),
            "stream": stream,
            "headers": None if self.headers is None else base64.b64encode(self.headers).decode(),
            "data": base64.b64encode(self.data).decode(),
        }


class Row(NamedTuple):
    """One row of a file."""

    key: str | None  # the decoder's own; None where it gives none
    # Every format can write them: see decoding.writable.
    fields: dict[str, Any]


def reason_of(error: BaseException) -> str:
    """An exception as a reason: its first line, bounded."""
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"[:MAX_REASON] if text[0] else type(error).__name__
