"""A chunk: what it says of itself; a gap, which is what no chunk holds; and an hour, which accounts for both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from nats3_dagster.model.stream import Incarnation, SeqRange

# Why no chunk has a message of a sequence. `deleted`: by a client; nothing else can have removed it. `expired`: the
# stream's limits, or a purge, moved its head over it. `superseded`: the limit of messages per subject. `ttl`: the time
# to live of single messages. `superseded_or_ttl`: one of these two. `damaged`: the server lost it with a damaged block.
# `undelivered`: the archive's durable was not there when the message was stored, or delivered it to another client.
# `missing`: gone with its stream. `unselected`: not taken by the archive's filter. `retired`: taken out of the archive
# after a replay. `expired_by_policy`: not kept any longer. `erased`: removed for good, on purpose.
Reason = Literal[
    "deleted",
    "expired",
    "superseded",
    "ttl",
    "superseded_or_ttl",
    "damaged",
    "undelivered",
    "unselected",
    "missing",
    "retired",
    "expired_by_policy",
    "erased",
]
# Reasons of messages that may have gone from the stream before they were captured.
LOSSES: tuple[Reason, ...] = (
    "expired",
    "superseded",
    "ttl",
    "superseded_or_ttl",
    "damaged",
    "undelivered",
    "missing",
)
# Those that absent sequences of a chunk may have: what went with its stream is a gap.
LOST_IN_CHUNKS: tuple[Reason, ...] = tuple(reason for reason in LOSSES if reason != "missing")
# Reasons of messages that were captured, and taken out of the archive on purpose: no capture, repair or adoption brings
# them back.
REMOVED: tuple[Reason, ...] = ("retired", "expired_by_policy", "erased")
# Reasons without a missing message: it was deleted on purpose, or not selected.
NOT_MISSING: tuple[Reason, ...] = ("deleted", "unselected")
# Above this number of subjects in one chunk the catalog keeps a bloom filter of them and no counts: a row for each
# takes some 270 bytes of Postgres, and 256 of them in a chunk a minute are 100 MB a day.
MAX_SUBJECTS = 256


@dataclass(frozen=True, slots=True)
class ChunkMeta:
    """The metadata of a chunk, as in its footer and in the catalog."""

    archive: str
    incarnation: Incarnation
    hour: str
    # Contiguous with its neighbours; wider than the messages where sequences are deleted or not selected.
    covers: SeqRange
    messages: int
    # The smallest and largest store time of the messages.
    first_ns: int
    last_ns: int
    # Subject, header block and payload of all messages.
    payload_bytes: int
    # The most that header block and payload of one message take: a replay compares it with the target's max_payload.
    largest_bytes: int
    # Of the object: size, SHA-256 in hex, key and bucket.
    stored_bytes: int
    sha256: str
    key: str
    bucket: str
    # The absent sequences where the archive takes every subject, so that Postgres can check
    # `messages + size(deleted) == size(covers)`; None where a filter leaves open which ones, or not asked for.
    deleted: tuple[SeqRange, ...] | None = field(default=None, repr=False)
    # Messages by subject, as subjects.decoded gives it; None with more than MAX_SUBJECTS of them, or not asked for.
    subjects: Mapping[str, int] | None = field(default=None, repr=False)
    # The bloom filter of the subjects where they are not counted (chunks.bloom); None where they are, or not asked for.
    bloom: bytes | None = field(default=None, repr=False)
    # Messages by minute of the hour, 60 numbers; None where the footer alone was read, or not
    # asked for.
    minutes: tuple[int, ...] | None = field(default=None, repr=False)
    # Why the absent sequences are; None where there are none.
    absent_reason: Reason | None = None

    @property
    def absent(self) -> int:
        """Sequences that the chunk covers and has no message of."""
        return self.covers.size - self.messages

    @property
    def lost(self) -> int:
        """Absent sequences whose messages may have gone from the stream before they were captured."""
        return self.absent if self.absent_reason in LOSSES else 0

    @property
    def missing(self) -> int:
        """Absent sequences whose messages were lost, or removed from the archive on purpose."""
        return 0 if self.absent_reason in NOT_MISSING else self.absent


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk in the catalog: a live one, but for what `merged_into` says."""

    id: int
    meta: ChunkMeta
    committed_at: datetime
    dagster_run_id: str | None
    # Of one that a compaction retired, and that a replay still has to publish: the chunk that has its messages now.
    merged_into: ChunkMeta | None = None
    # The buckets that have, or will have, a copy of its object under the same key.
    copies: tuple[str, ...] = ()

    @property
    def stored(self) -> ChunkMeta:
        """The chunk whose object has the messages."""
        return self.merged_into or self.meta


@dataclass(frozen=True, slots=True)
class Gap:
    """Sequences that no chunk holds, and why."""

    incarnation: Incarnation
    # Ascending and disjoint.
    ranges: tuple[SeqRange, ...]
    reason: Reason

    @property
    def size(self) -> int:
        return sum(r.size for r in self.ranges)

    @property
    def is_loss(self) -> bool:
        """True if messages may have left the stream before they were captured. Deleted and unselected messages are
        absent on purpose, and removed ones had been captured."""
        return self.reason in LOSSES


@dataclass(frozen=True, slots=True)
class DeadObject:
    """An object of a chunk or seal that is no longer live and still in the store."""

    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class Unswept:
    """The objects that retired chunks of an archive still have in the store."""

    objects: int
    # As stored.
    bytes: int
    # When the last of them was retired; None where there is none.
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class PlacedGap:
    """A gap beside an hour's chunks, and the hours that its messages may belong to."""

    seqs: SeqRange
    reason: Reason
    # The first and the last of these hours; None where nothing is missing (deleted, unselected).
    first_hour: str | None = None
    last_hour: str | None = None
    # Its messages were stored from the one time to the other, in nanoseconds; None as the hours are.
    after_ns: int | None = None
    before_ns: int | None = None


@dataclass(frozen=True, slots=True)
class OtherHour:
    """Sequences among an hour's own that belong to another one."""

    seqs: SeqRange
    hour: str


@dataclass(frozen=True, slots=True)
class HourPart:
    """The chunks of an hour in one incarnation, the gaps beside them, and its possible losses."""

    incarnation: Incarnation
    # From the sequence after the previous chunk to the last of them.
    seqs: SeqRange
    # Ascending.
    gaps: tuple[PlacedGap, ...]
    # Ascending. Not empty where hours interleave, as they do when two clocks differ.
    others: tuple[OtherHour, ...]
