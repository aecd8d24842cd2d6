"""A chunk's footer: what the file says of itself, wherever its bytes come from.

Invariant: what we act on is in the key-value metadata, and only used when its digest matches. Parquet has checksums for
pages and none for its footer: a flipped bit in a row group's statistics would make a reader skip messages silently. So
the bounds of the row groups are in the metadata too, and Parquet's own statistics are for other engines. (Python must
not even look at them: Arrow 26 ends the process, uncatchably, if the type of a column does not match there.) Where the
object's SHA-256 is unknown or cannot be computed, in a rebuild or a ranged read, the digest takes its place.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast, get_args

import pyarrow.parquet as pq

from nats3_dagster.chunks.columns import CHUNK_MESSAGES, FORMAT_VERSION, MOST_BYTES, SCHEMA
from nats3_dagster.chunks.group_subjects import Filters, parsed, written
from nats3_dagster.errors import ChunkError, OperatorError
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Incarnation, Reason, SeqRange
from nats3_dagster.steps import Next

_SPACE = "nats3."
VERSION = _SPACE + "format_version"
DIGEST = _SPACE + "digest"
_SUBJECTS = _SPACE + "subjects"
_GROUP_SUBJECTS = _SPACE + "row_group_subjects"
DAMAGED = Next.OBJECT_DAMAGED()
# Of an object that no release of nats3 wrote.
FOREIGN = Next.OBJECT_FOREIGN()
# The value of `absent_reason` where no sequence is absent.
_NONE = "none"


class RowGroup(NamedTuple):
    """One row group."""

    rows: int
    first_seq: int
    last_seq: int
    first_ns: int  # smallest store time
    last_ns: int  # largest store time

    @property
    def is_dense(self) -> bool:
        """True if it has every sequence from the first to the last: the bounds then give the content of the column
        `seq`."""
        return self.rows == self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class Footer:
    """Everything that the key-value metadata and the row groups say."""

    archive: str
    bucket: str  # where it was written; a copy elsewhere is as good
    prefix: str
    incarnation: Incarnation
    hour: str  # YYYY-MM-DD-HH:00, UTC
    covers: SeqRange  # the sequences that the chunk accounts for
    absent_reason: Reason | None  # why covered sequences are not in the file; None where all are
    payload_bytes: int  # subjects, header blocks and payloads of all messages
    largest_bytes: int  # header block and payload of the largest message
    stream_config: str = field(repr=False)  # canonical JSON
    row_groups: tuple[RowGroup, ...] = field(repr=False)
    # The filters under which `absent_reason` is meant; empty where the chunk took every subject. A key only where there
    # are filters.
    subjects: tuple[str, ...] = ()
    # Which subjects each row group may have. A key only where there are filters.
    group_subjects: Filters = field(default=(), repr=False)

    @property
    def messages(self) -> int:
        return sum(group.rows for group in self.row_groups)

    @property
    def first_ns(self) -> int:
        return min(group.first_ns for group in self.row_groups)

    @property
    def last_ns(self) -> int:
        return max(group.last_ns for group in self.row_groups)

    @property
    def config(self) -> dict[str, Any]:
        """The stream's configuration."""
        return json.loads(self.stream_config)

    def metadata(self) -> dict[str, str]:
        """The key-value pairs to write, the digest among them."""
        pairs = {
            VERSION: str(FORMAT_VERSION),
            _SPACE + "archive": self.archive,
            _SPACE + "bucket": self.bucket,
            _SPACE + "prefix": self.prefix,
            _SPACE + "stream": self.incarnation.stream,
            _SPACE + "stream_created_ns": str(self.incarnation.created_ns),
            _SPACE + "hour": self.hour,
            _SPACE + "covers_first": str(self.covers.first),
            _SPACE + "covers_last": str(self.covers.last),
            _SPACE + "absent_reason": self.absent_reason or _NONE,
            _SPACE + "messages": str(self.messages),
            _SPACE + "payload_bytes": str(self.payload_bytes),
            _SPACE + "largest_bytes": str(self.largest_bytes),
            _SPACE + "first_time_ns": str(self.first_ns),
            _SPACE + "last_time_ns": str(self.last_ns),
            _SPACE + "row_groups": json.dumps(self.row_groups, separators=(",", ":")),
            _SPACE + "stream_config": self.stream_config,
        }
        if self.subjects:
            pairs[_SUBJECTS] = json.dumps(self.subjects, separators=(",", ":"), ensure_ascii=False)
        if self.group_subjects:
            pairs[_GROUP_SUBJECTS] = written(self.group_subjects)
        return pairs | {DIGEST: _digest(pairs)}


def canonical_json(value: Mapping[str, Any]) -> str:
    """Keys sorted, no white space, UTF-8 as it is: the same configuration is always the same bytes."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_footer(metadata: pq.FileMetaData) -> Footer:
    """The footer of a chunk, proven. Raises ChunkError for a file that is no chunk, of a newer version, or damaged."""
    raw: dict[bytes, bytes] = metadata.metadata or {}
    pairs = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in raw.items()
        if key.startswith(_SPACE.encode())
    }
    version = pairs.get(VERSION)
    if version is None:
        raise ChunkError("The object is not a chunk: it is Parquet, but has no nats3.format_version", DAMAGED)
    if version != str(FORMAT_VERSION):
        if re.fullmatch(r"[1-9]\d{0,3}", version):
            raise ChunkError(
                f"The chunk has format version {version}, and this release reads up to {FORMAT_VERSION}",
                "Upgrade nats3-dagster to read it",
            )
        raise ChunkError(f"The chunk's format version is {version!r}", DAMAGED)
    if not metadata.schema.to_arrow_schema().equals(SCHEMA):
        raise ChunkError("The chunk's columns are not those of its format version", DAMAGED)
    if pairs.pop(DIGEST, None) != _digest(pairs):
        raise ChunkError("The chunk's metadata does not match its own digest", DAMAGED)
    footer = _parsed(pairs)
    _agree(footer, pairs)
    if metadata.num_row_groups != len(footer.row_groups) or metadata.num_rows != footer.messages:
        raise ChunkError("The chunk does not have the row groups that its metadata names", DAMAGED)
    return footer


def _digest(pairs: Mapping[str, str]) -> str:
    """SHA-256 of a line `key=value` for each pair, in the order of the keys."""
    return hashlib.sha256("".join(f"{key}={pairs[key]}\n" for key in sorted(pairs)).encode()).hexdigest()


def _parsed(pairs: Mapping[str, str]) -> Footer:
    def text(name: str) -> str:
        return pairs[_SPACE + name]

    def number(name: str) -> int:
        return int(text(name))

    try:
        hour_start(text("hour"))
        groups = tuple(RowGroup(*map(int, bounds)) for bounds in json.loads(text("row_groups")))
        filters = pairs.get(_GROUP_SUBJECTS)
        return Footer(
            archive=text("archive"),
            bucket=text("bucket"),
            prefix=text("prefix"),
            incarnation=Incarnation(text("stream"), number("stream_created_ns")),
            hour=text("hour"),
            covers=SeqRange(number("covers_first"), number("covers_last")),
            absent_reason=_reason(text("absent_reason")),
            payload_bytes=number("payload_bytes"),
            largest_bytes=number("largest_bytes"),
            stream_config=text("stream_config"),
            row_groups=groups,
            subjects=tuple(map(str, json.loads(pairs.get(_SUBJECTS, "[]")))),
            group_subjects=() if filters is None else parsed(filters, len(groups)),
        )
    except (KeyError, ValueError, TypeError, OperatorError) as error:
        raise ChunkError(f"The chunk's metadata cannot be read: {error}", DAMAGED) from error


def _reason(text: str) -> Reason | None:
    """Raises ValueError for a word that no release wrote."""
    if text == _NONE:
        return None
    if text not in get_args(Reason):
        raise ValueError(f"{text!r} is no reason")
    return cast("Reason", text)


def _agree(footer: Footer, pairs: Mapping[str, str]) -> None:
    """Raises ChunkError if the metadata contradicts itself: a writer's mistake, because the digest matched."""
    bounds = [footer.covers.first - 1]
    for group in footer.row_groups:
        bounds += [group.first_seq, group.last_seq]
    rows = all(0 < group.rows <= group.last_seq - group.first_seq + 1 for group in footer.row_groups)
    apart = all(a < b for a, b in zip(bounds[::2], bounds[1::2], strict=False))
    if not (footer.row_groups and rows and apart and bounds[-1] <= footer.covers.last):
        raise ChunkError("The chunk's row groups do not lie in the sequences it covers", DAMAGED)
    if (footer.absent_reason is None) != (footer.messages == footer.covers.size):
        raise ChunkError("The chunk's metadata contradicts itself", DAMAGED)
    if footer.messages > CHUNK_MESSAGES or footer.payload_bytes > MOST_BYTES:
        raise ChunkError(
            f"The chunk says that it has {footer.messages:,} messages of {footer.payload_bytes:,} bytes, more than "
            "one may have",
            FOREIGN,
        )
    again = footer.metadata()
    del again[DIGEST]
    if again != pairs:
        raise ChunkError("The chunk's metadata contradicts itself", DAMAGED)
