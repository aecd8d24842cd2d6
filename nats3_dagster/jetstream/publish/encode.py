"""Encoding: the frames that publish a batch of messages, in one buffer. Pure, no I/O.

One pass of an Arrow kernel builds the frames of a whole batch: 0.5 microseconds a message. Invariant: no frame is built
for a subject or a size that the protocol or the server would not take, so nothing in a message can become a command.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.errors import TargetError
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.steps import Next
from nats3_dagster.subjects import decoded, readable

# What ends a subject on the wire. Any other byte may be in one.
_SPACE = re.compile(rb"[ \t\r\n]")
# Verb, reply subject and sizes: what a control line has beside its subject, at most.
_LINE_BYTES = 160
# A server closes the connection at a longer subject: its `max_control_line` is not in INFO, and nearly always 4,096.
MAX_SUBJECT_BYTES = 4096 - _LINE_BYTES
# Arrow's offsets are 32 bits; a slice of this size is also what one encoding takes of memory.
_SLICE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Encoded:
    """The frames of some messages."""

    buffer: memoryview  # the frames, one after the other
    ends: Int64s  # where each frame ends in `buffer`, bytes
    subjects: pa.Array  # of each message, binary

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def size(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0


@dataclass(frozen=True, slots=True)
class Publication:
    """Messages to publish: three arrays of the same length."""

    subjects: pa.Array  # binary, as on the wire
    headers: pa.Array  # binary, the header block as on the wire; null for none
    data: pa.Array  # binary, the payload

    @classmethod
    def of(cls, subjects: pa.Array, headers: pa.Array | None, data: pa.Array) -> "Publication":
        """Returns the publication of arrays that may be chunked, `subjects` string or binary; no `headers`: no message
        has any."""
        arrays = (subjects.cast(pa.binary()), pa.nulls(len(data), pa.binary()) if headers is None else headers, data)
        return cls(*(a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def sizes(self) -> Int64s:
        """Bytes of header block and payload of each message together: what max_payload limits."""
        return _lengths(self.headers) + _lengths(self.data)

    @property
    def frame_sizes(self) -> Int64s:
        """Bytes of each frame on the wire, at most."""
        return self.sizes + _lengths(self.subjects) + _LINE_BYTES

    def slices(self) -> Iterator["Publication"]:
        """Parts whose frames fit into one encoding (_SLICE_BYTES); a larger message is a part of its own."""
        total = np.cumsum(self.frame_sizes)
        at = 0
        while at < len(self):
            before = int(total[at - 1]) if at else 0
            end = max(at + 1, int(np.searchsorted(total, before + _SLICE_BYTES, "right")))
            yield self.slice(at, end)
            at = end

    def cut(self, at: int) -> "tuple[Publication, Publication]":
        """The first `at` messages, and the others."""
        return self.slice(0, at), self.slice(at, len(self))

    def slice(self, start: int, end: int) -> "Publication":
        """The messages from `start` up to `end`, without it."""
        return Publication(self.subjects[start:end], self.headers[start:end], self.data[start:end])

    def check(self, max_payload: int, checked: set[bytes], added: Int64s | int = 0) -> None:
        """Raises TargetError for a message that the server would not take, or that no server should be sent.

        `checked` are subjects that are known to be good; it grows, up to a bound. `max_payload` is in bytes, and so is
        what each message gets `added` to it."""
        sizes = self.sizes + added
        if len(sizes) and int(sizes.max()) > max_payload:
            at = int(sizes.argmax())
            raise TargetError(
                f"A message on {subject_at(self.subjects, at)} has {sizes[at]} bytes with its headers; the server's "
                f"max_payload is {max_payload}",
                f"Set max_payload of the target server to at least {sizes[at]}",
            )
        for subject in pc.unique(self.subjects).to_pylist():
            if subject not in checked:
                if not publishable(subject):
                    raise TargetError(
                        f"{readable(decoded(subject or b''))!r} is not a subject that can be published to",
                        Next.CHANGE_WRITE_SUBJECT(),
                    )
                if len(subject) > MAX_SUBJECT_BYTES:
                    raise subject_too_long(readable(decoded(subject)), len(subject))
                checked.add(subject)
        if len(checked) > 100_000:
            checked.clear()


def publishable(subject: bytes | None) -> bool:
    """True if a message can be published to the subject: tokens joined by dots, none of them empty or with white space.
    Tokens `*` and `>` are no wildcards there: a stream may hold such messages."""
    return bool(subject) and not _SPACE.search(subject) and b"" not in subject.split(b".")


def subject_too_long(subject: str, size: int) -> TargetError:
    """Returns the error for a readable subject of this number of bytes, to which no message can be published."""
    return TargetError(
        f"The subject {subject[:60]}... has {size} bytes; a message can be published to {MAX_SUBJECT_BYTES} at most",
        "Choose a shorter write subject, or replay other subjects",
    )


def subject_at(subjects: pa.Array, row: int) -> str:
    """One of the binary `subjects` as text. A stream that takes the subject takes this one too, and no other stream
    does: filters are UTF-8, so only a wildcard of its filter takes a token that is not."""
    return readable(decoded(subjects[row].as_py()))


def encode(messages: Publication, reply: str, first: int, suffix: str = "") -> Encoded:
    """Frames whose reply subjects are `<reply><number><suffix>`, numbered from `first`; none without `reply`."""
    header_sizes, sizes = _lengths(messages.headers), messages.sizes
    replies = (f" {reply}", _text(np.arange(first, first + len(messages))), f"{suffix} ") if reply else (" ",)
    headerless = messages.headers.null_count
    if headerless == len(messages):
        verb, lengths, headers = "PUB ", _text(sizes), b""
    else:
        verb, headers = "HPUB ", messages.headers
        lengths = _joined(_text(header_sizes), b" ", _text(sizes))
        if headerless:
            without = pc.is_null(headers)
            verb = pc.if_else(without, pa.scalar(b"PUB ", pa.binary()), pa.scalar(b"HPUB ", pa.binary()))
            lengths = pc.if_else(without, _text(sizes), lengths)
            headers = pc.fill_null(headers, b"")
    frames = _joined(
        verb,
        messages.subjects,
        *replies,
        lengths,
        "\r\n",
        headers,
        messages.data,
        "\r\n",
    )
    buffers = frames.buffers()
    ends = np.frombuffer(buffers[1], np.int32)[frames.offset + 1 : frames.offset + 1 + len(frames)].astype(np.int64)
    return Encoded(memoryview(buffers[2]), ends, messages.subjects)


def _joined(*pieces: pa.Array | str | bytes) -> pa.Array:
    texts = (p.encode() if isinstance(p, str) else p for p in pieces)
    arrays = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in texts]
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.binary()))


def _lengths(values: pa.Array) -> Int64s:
    lengths = pc.binary_length(values)
    return pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _text(numbers: Int64s) -> pa.Array:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())
