"""A stream: ranges of its sequences, its incarnations, its state, a message of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.plausible import check_field
from nats3_dagster.subjects import decoded

# The largest sequence that the catalog can hold: the end of its ranges is the one after it. A stream that counts from 1
# does not get there.
MAX_SEQUENCE = 2**63 - 2
STREAM_NAME = Pattern(
    r"[^\s.*>/\\]{1,255}", "a stream name", "It may not hold white space or any of . * > / \\, nor be over 255 long"
)


# The key of the metadata that says that a restore is not complete, and has to be deleted where it was cut; and the
# beginning of the subject that the stream has as long.
MARK = "nats3.restoring"
# The key of the metadata of a buffer that names its archive.
BUFFERS = "nats3.buffer.archive"


class SeqRange(NamedTuple):
    """The sequences `first` to `last`, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def clipped(ranges: Iterable[SeqRange], window: SeqRange) -> list[SeqRange]:
    """The part of each range that lies in the window; ranges outside it are left out."""
    cut = (SeqRange(max(r.first, window.first), min(r.last, window.last)) for r in ranges)
    return [r for r in cut if r.first <= r.last]


def listed_ranges(ranges: Sequence[SeqRange]) -> str:
    """Returns the first five ranges and the number of the others, as text."""
    more = f" and {len(ranges) - 5} more ranges" if len(ranges) > 5 else ""
    return f"{', '.join(map(str, ranges[:5]))}{more}"


def ranges_of(seqs: Iterable[int]) -> tuple[SeqRange, ...]:
    """The sequences as ranges, ascending."""
    ranges: list[SeqRange] = []
    for seq in sorted(seqs):
        if ranges and ranges[-1].last == seq - 1:
            ranges[-1] = SeqRange(ranges[-1].first, seq)
        else:
            ranges.append(SeqRange(seq, seq))
    return tuple(ranges)


def shared(ranges: Iterable[SeqRange], others: Iterable[SeqRange]) -> tuple[SeqRange, ...]:
    """The sequences that are in both, ascending. The ranges of each may be in any order, and do not overlap."""
    found: list[SeqRange] = []
    left, right = sorted(ranges), sorted(others)
    one = two = 0
    while one < len(left) and two < len(right):
        part = SeqRange(max(left[one].first, right[two].first), min(left[one].last, right[two].last))
        if part.first <= part.last:
            found.append(part)
        if left[one].last < right[two].last:
            one += 1
        else:
            two += 1
    return tuple(found)


def without(ranges: Iterable[SeqRange], removed: Iterable[SeqRange]) -> tuple[SeqRange, ...]:
    """Returns the rest of the ranges, ascending, without the sequences of others. There may be many of both."""
    rest: list[SeqRange] = []
    gone = sorted(removed)
    at = 0
    for part in sorted(ranges):
        first = part.first
        while at < len(gone) and gone[at].last < first:
            at += 1
        ahead = at
        while ahead < len(gone) and gone[ahead].first <= part.last:
            if first < gone[ahead].first:
                rest.append(SeqRange(first, gone[ahead].first - 1))
            first = max(first, gone[ahead].last + 1)
            ahead += 1
        if first <= part.last:
            rest.append(SeqRange(first, part.last))
    return tuple(rest)


def parse_sequences(text: str) -> SeqRange:
    """`A-B`, or `A` for one sequence. Raises OperatorError."""
    match = re.fullmatch(r"(\d{1,20})(?:-(\d{1,20}))?", text)
    if not match:
        raise OperatorError(f"{text!r} is not a sequence range", "Write it as 1000-2000")
    return SeqRange(int(match[1]), int(match[2] or match[1]))


def check_stream_name(text: str, field: str = "stream") -> str:
    """`text` if a stream can have this name. Raises OperatorError that names the field."""
    check_field(field, text)
    STREAM_NAME.check(text, field, "" if field == "stream" else f" for {field}")
    return text


class BufferLife(NamedTuple):
    """One life of a buffer: a stream of our own that mirrors the stream of an archive."""

    stream: str
    # When the server made it, in nanoseconds since 1970.
    created_ns: int


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a stream: deleted and made again it restarts at sequence 1 and is another stream."""

    stream: str
    # When the server made it, in nanoseconds since 1970.
    created_ns: int
    # When the server made the stream again from a backup that continues this incarnation, in nanoseconds; 0 where it
    # did not. It is no part of the identity.
    restored_ns: int = field(default=0, compare=False)
    # The stream of our own that its messages are read from; None where the stream itself is read. It is no part of the
    # identity either.
    buffer: "BufferLife | None" = field(default=None, compare=False)

    @property
    def read_stream(self) -> str:
        """The name of the stream that the server is asked for messages of this one."""
        return self.buffer.stream if self.buffer else self.stream

    @property
    def server_created_ns(self) -> int:
        """`created` as the server tells it now."""
        return self.restored_ns or self.created_ns

    @property
    def token(self) -> str:
        """`created` as `20261121T075644123456789Z`: part of object keys and message ids."""
        seconds, fraction = divmod(self.created_ns, SECOND_NS)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}{fraction:09d}Z"


@dataclass(frozen=True, slots=True)
class Witness:
    """A message of a stream by what never changes while the stream keeps its history."""

    seq: int
    # Its store time in nanoseconds.
    time_ns: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state from STREAM.INFO: identity, bounds and configuration."""

    incarnation: Incarnation
    # The oldest sequence that the stream still has, and the newest one that it ever gave.
    first_seq: int
    last_seq: int
    # Their store times in nanoseconds; 0 where there never was a message.
    first_ns: int
    last_ns: int
    # What the stream holds now: messages, and bytes as the server counts them.
    messages: int
    bytes: int
    # The server's JSON, unchanged.
    config: Mapping[str, Any] = field(repr=False)
    # Sequences that the server lost with damaged blocks, ascending.
    damaged: tuple[SeqRange, ...] = field(default=(), repr=False)
    # Its consumers; 0 where the catalog, which does not keep them, is asked.
    consumers: int = 0
    # The server that leads it; empty where the server or the catalog does not say it.
    leader: str = field(default="", compare=False)
    # The server's time when it answered, in nanoseconds; None where the server or the catalog does not say it.
    answered_ns: int | None = field(default=None, compare=False, repr=False)
    # Where the stream is read from a buffer: the stream's own state, and the configuration of the buffer. Then the
    # bounds, times, messages and bytes here are the buffer's.
    origin: "StreamState | None" = field(default=None, compare=False, repr=False)
    buffer: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.incarnation.stream

    @property
    def read_stream(self) -> str:
        """The name of the stream that the server is asked for its messages."""
        return self.incarnation.read_stream

    @property
    def own(self) -> "StreamState":
        """The stream's own state, also where it is read from a buffer."""
        return replace(self.origin, incarnation=replace(self.incarnation, buffer=None)) if self.origin else self

    def holder(self, seq: int) -> str:
        """The name of the stream that has a message of this sequence, if one has."""
        return self.read_stream if seq <= self.last_seq else self.name

    @property
    def keeping(self) -> Mapping[str, Any]:
        """The configuration whose limits remove what is not captured."""
        return self.config if self.buffer is None else self.buffer

    @property
    def configs(self) -> tuple[Mapping[str, Any], ...]:
        """The configurations that decide what is absent."""
        return (self.config,) if self.buffer is None else (self.config, self.buffer)

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(self.config.get("subjects") or ())


def through_buffer(origin: StreamState, buffer: StreamState) -> StreamState:
    """The state of a stream that is read from its buffer. `buffer`: asked before `origin`, so that what it has up to
    its end came from this incarnation."""
    return replace(
        buffer,
        incarnation=replace(origin.incarnation, buffer=BufferLife(buffer.name, buffer.incarnation.created_ns)),
        # A mirror that never had a message says nothing of sequences.
        first_seq=buffer.first_seq if buffer.last_seq else origin.first_seq,
        config=origin.config,
        consumers=origin.consumers,
        origin=origin,
        buffer=buffer.config,
    )


def removing_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a stream's configuration that remove messages, or leave sequences without messages: a
    mirror never gets a message that its origin removed before."""
    names = ["max_age", "allow_msg_ttl", "subject_delete_marker_ttl"]
    if config.get("discard", "old") == "old":  # a stream that refuses new messages removes none for being full
        names += ["max_msgs", "max_bytes"]
    if not config.get("discard_new_per_subject"):
        names.append("max_msgs_per_subject")
    # Servers write "no limit" as 0 or -1.
    removing = {name: config[name] for name in names if int(config.get(name) or 0) > 0}
    if config.get("retention", "limits") != "limits":
        removing["retention"] = config["retention"]
    if config.get("mirror"):
        removing["mirror"] = config["mirror"]
    return removing


@dataclass(frozen=True, slots=True)
class Message:
    """One archived message."""

    incarnation: Incarnation
    # Stream sequence.
    seq: int
    # Store time, nanoseconds since 1970, UTC.
    time_ns: int
    # As the archive has it: text. Of a subject that is not UTF-8 see `subject_bytes`.
    subject: str
    # The wire's bytes where the subject is not UTF-8; None for all others.
    subject_bytes: bytes | None
    # The header block as on the wire; None without one.
    headers: bytes | None
    # The payload.
    data: bytes

    @property
    def exact_subject(self) -> str:
        """The subject as `subjects.decoded` gives it: no two are equal unless their bytes are."""
        return self.subject if self.subject_bytes is None else decoded(self.subject_bytes)


def bucket_of(subjects: Sequence[str]) -> str | None:
    """Name of the stream that clients look for, if the subjects are those of a key-value bucket or an object store."""
    for pattern, prefix in ((r"\$KV\.([^.*>]+)\..+", "KV_"), (r"\$O\.([^.*>]+)\..+", "OBJ_")):
        matched = [re.fullmatch(pattern, subject) for subject in subjects]
        names = {m[1] for m in matched if m}
        if all(matched) and len(names) == 1:
            return prefix + names.pop()
    return None


def own_metadata(config: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a stream's configuration without the server's own notes on the version that made the stream."""
    metadata: dict[str, str] = config.get("metadata") or {}
    return {key: value for key, value in metadata.items() if not key.startswith("_nats.")}


def buffer_of(state: StreamState) -> str | None:
    """The archive that the stream is the buffer of; None for a stream that is none."""
    return own_metadata(state.config).get(BUFFERS)


def is_unfinished(config: Mapping[str, Any]) -> bool:
    """True for the configuration of a stream that is being restored, or that a restore left when it was cut."""
    return MARK in own_metadata(config)
