"""The values that move between the layers.

The rule kept here: frozen values with checks of their own, no I/O, nothing of ours imported but errors and hours.
Sequences are JetStream stream sequences (from 1), ranges are inclusive at both ends, times are nanoseconds since
1970 in UTC, sizes are bytes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS, hour_start

Reason = Literal["deleted", "expired", "unselected", "missing", "retired"]
Mode = Literal["stream", "consumer"]
Order = Literal["stream", "subject", "none"]
# Above this many subjects in one chunk the catalog keeps no per-subject counts: a stream with a subject per message
# would otherwise write a catalog row per message.
MAX_SUBJECTS = 10_000
ReplayState = Literal["planned", "running", "succeeded", "failed", "canceled"]


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
    """What of each range is in the window; ranges that have nothing there are left out."""
    cut = (SeqRange(max(r.first, window.first), min(r.last, window.last)) for r in ranges)
    return [r for r in cut if r.first <= r.last]


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a stream: deleted and made again it restarts at sequence 1 and is another stream."""

    stream: str
    created_ns: int

    @property
    def token(self) -> str:
        """`created` as `20261121T075644123456789Z`: stands in object keys and message ids."""
        seconds, fraction = divmod(self.created_ns, SECOND_NS)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}{fraction:09d}Z"


@dataclass(frozen=True, slots=True)
class StreamState:
    """What STREAM.INFO said: identity, bounds and configuration (`config` is the server's JSON as it came)."""

    incarnation: Incarnation
    first_seq: int
    last_seq: int
    first_ns: int
    last_ns: int
    messages: int
    bytes: int
    config: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.incarnation.stream

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(self.config.get("subjects") or ())


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """An archive as asked for (`nats3 store create`). `max_*` are the thresholds at which a capture is due.

    `subjects` are NATS filters; empty means every subject of the stream. Raises OperatorError when made wrong."""

    name: str
    stream: str
    bucket: str
    prefix: str = ""
    subjects: tuple[str, ...] = ()
    mode: Mode = "stream"
    durable: str | None = None
    max_messages: int = 1_000_000
    max_bytes: int = 64 << 20
    max_age_s: int = 60
    zstd_level: int = 3

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise OperatorError(f"{self.name!r} is not an archive name", "Use letters, digits and _ only")
        if not re.fullmatch(r"[^\s.*>/\\]+", self.stream):
            raise OperatorError(
                f"{self.stream!r} is not a stream name", "It may not hold white space or any of . * > / \\"
            )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", self.bucket):
            raise OperatorError(
                f"{self.bucket!r} is not a bucket name", "Use 3 to 63 letters, digits, dots and hyphens"
            )
        if self.prefix.startswith("/") or self.prefix.endswith("/") or "//" in self.prefix:
            raise OperatorError(f"The prefix {self.prefix!r} has an empty part", "Write it like team/logs")
        for what in ("max_messages", "max_bytes", "max_age_s"):
            if getattr(self, what) <= 0:
                raise OperatorError(f"{what} is {getattr(self, what)}", "A threshold must be above 0")
        if not 1 <= self.zstd_level <= 22:
            raise OperatorError(f"zstd level {self.zstd_level} does not exist", "Use 1 to 22")


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive in the catalog. `paused` stops the sensors only; a capture by hand still runs."""

    id: int
    spec: ArchiveSpec
    paused: bool
    created_at: datetime

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class ChunkMeta:
    """What a chunk says of itself, and what the catalog keeps of it.

    `covers` is contiguous with its neighbours and wider than the messages where sequences are deleted at the source or
    not selected by the archive's filter; `absent` counts those. `deleted` lists them where the archive takes every
    subject, so that Postgres can check `messages + size(deleted) == size(covers)`; it is None where a filter makes the
    reason unknowable. `first_ns`/`last_ns` are the smallest and largest store time of the messages. `payload_bytes`
    counts subject, header block and payload; `largest_bytes` is the most that header block and payload of one message
    take (a replay checks it against the target's max_payload); `stored_bytes` is the object's size. `subjects` counts
    messages by subject; it is None with more than MAX_SUBJECTS of them (the chunk's subject column then answers).
    `minutes` counts them by minute of the hour, 60 numbers; None where the footer alone was read."""

    archive: str
    incarnation: Incarnation
    hour: str
    covers: SeqRange
    messages: int
    first_ns: int
    last_ns: int
    payload_bytes: int
    largest_bytes: int
    stored_bytes: int
    sha256: str
    key: str
    bucket: str
    deleted: tuple[SeqRange, ...] | None = field(default=None, repr=False)
    subjects: Mapping[str, int] | None = field(default=None, repr=False)
    minutes: tuple[int, ...] | None = field(default=None, repr=False)

    @property
    def absent(self) -> int:
        return self.covers.size - self.messages


@dataclass(frozen=True, slots=True)
class Chunk:
    """A live chunk in the catalog. The `deleted` and `subjects` of its `meta` are None unless asked for."""

    id: int
    meta: ChunkMeta
    committed_at: datetime
    dagster_run_id: str | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences that no chunk holds, and why. `ranges` are ascending and disjoint."""

    incarnation: Incarnation
    ranges: tuple[SeqRange, ...]
    reason: Reason

    @property
    def size(self) -> int:
        return sum(r.size for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a replay goes: limits per second, or the original timing `speed` times as fast; None: no limit."""

    messages_per_s: float | None = None
    bytes_per_s: float | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        for what in ("messages_per_s", "bytes_per_s", "speed"):
            value = getattr(self, what)
            if value is not None and value <= 0:
                raise OperatorError(f"{what} is {value}", "A pace must be above 0; leave it out for no limit")


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """A replay as asked for. Hours, times `[from_ns, to_ns)` and sequences narrow the selection together; without any
    the whole archive is replayed. Raises OperatorError when made wrong (subjects are checked by subjects.Transform)."""

    archive: str
    read_subject: str = ">"
    write_subject: str = ">"
    hours: tuple[str, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None
    seqs: SeqRange | None = None
    order: Order = "stream"
    pace: Pace = Pace()
    create_stream: str | None = None
    into_own_stream: bool = False
    over_gaps: bool = False
    delete_chunks: bool = False

    def __post_init__(self) -> None:
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise OperatorError("The selection's from is not before its to", "Give a from that is earlier than to")
        if self.seqs is not None and not 1 <= self.seqs.first <= self.seqs.last:
            raise OperatorError(
                f"{self.seqs} is not a sequence range", "Write first-last, from 1, first not above last"
            )
        if self.order not in ("stream", "subject", "none"):
            raise OperatorError(f"{self.order!r} is not an order", "Use stream, subject or none")
        if self.order != "stream" and self.pace.speed is not None:
            raise OperatorError("The original timing needs one publisher", "Use the order stream with a speed")
        for hour in self.hours:
            hour_start(hour)


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A stream that takes what a replay publishes: nothing of it has a sequence below `since_seq`."""

    incarnation: Incarnation
    since_seq: int


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What a replay did with one chunk: of `selected` messages, `published` now, `found` already in the target from an
    earlier attempt; `duplicates` of the published ones the target refused as known. All four count messages."""

    chunk_id: int
    selected: int
    published: int
    found: int
    duplicates: int
