"""A manifest: the object beside the chunks of an hour that says what the hour has and what was lost, and proves it.

Invariants: for each incarnation of the stream the chunks, gaps and sequences of other hours tile a range, from the
sequence after the previous chunk to the last chunk or loss of the hour, without a hole and without an overlap; any
other manifest is neither written nor read. The same hour in the same state gives the same bytes. JSON, compressed with
zstandard.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import zstandard
from pydantic import ConfigDict, TypeAdapter, ValidationError

from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.chunks.naming import hour_folder
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import NOT_MISSING, Reason, SeqRange

MANIFEST_VERSION = 1
# The next step where a newer release wrote the manifest.
NEWER = "Upgrade nats3"
# Bytes: the largest window of zstandard's levels up to 19.
_MOST_WINDOW = 8 << 20
# Bytes of JSON, some 100,000 chunks: none is written or read that has more, because a frame of some KB may hold GBs.
MOST_TEXT = 32 << 20
# Bytes of a frame that are decompressed at a time: a block of 4 may hold 128 KiB.
_STEP = 256
_KEY = re.compile(r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/manifest-(\d{4,})-[0-9a-f]{12}\.json\.zst\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class ManifestChunk:
    """A chunk of the hour, as the catalog has it."""

    key: str
    sha256: str  # hex
    stored_bytes: int  # of the object
    first_seq: int
    last_seq: int
    messages: int
    payload_bytes: int  # subjects, header blocks and payloads
    first_ns: int  # smallest store time
    last_ns: int  # largest store time
    absent_reason: Reason | None = None  # why it has fewer messages than sequences; null where it has not


@dataclass(frozen=True, slots=True)
class ManifestGap:
    """Sequences that no chunk holds, and why. What is missing has hours and times: its messages may belong to any hour
    from the first to the last."""

    first_seq: int
    last_seq: int
    reason: Reason
    # All four are null if no message is missing: deleted and unselected messages are absent on purpose.
    first_hour: str | None = None
    last_hour: str | None = None
    after_ns: int | None = None  # the messages were stored from this time
    before_ns: int | None = None  # to this one


@dataclass(frozen=True, slots=True)
class ManifestOther:
    """Sequences that another hour accounts for, by its chunks or its gaps: there are some where hours interleave."""

    first_seq: int
    last_seq: int
    hour: str


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """One incarnation of the stream: each sequence from first to last is in one chunk, one gap or another hour."""

    created_ns: int  # when the stream was created
    first_seq: int
    last_seq: int
    chunks: tuple[ManifestChunk, ...]  # ascending
    gaps: tuple[ManifestGap, ...] = ()  # ascending
    others: tuple[ManifestOther, ...] = ()  # ascending


@dataclass(frozen=True, slots=True)
class Manifest:
    """An hour of an archive."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportUnannotatedClassAttribute]

    archive: str
    stream: str
    bucket: str
    prefix: str
    hour: str  # YYYY-MM-DD-HH:00, UTC
    number: int  # of the hour's seals, from 1: the highest one is its present state
    parts: tuple[ManifestPart, ...] = ()  # none: the archive has no message of the hour, and none is missing

    @property
    def messages(self) -> int:
        return sum(chunk.messages for part in self.parts for chunk in part.chunks)

    @property
    def gap_size(self) -> int:
        """Sequences in gaps."""
        return sum(gap.last_seq - gap.first_seq + 1 for part in self.parts for gap in part.gaps)

    @property
    def losses(self) -> int:
        """Sequences in those gaps whose messages may belong to the hour, and are missing."""
        return sum(g.last_seq - g.first_seq + 1 for part in self.parts for g in part.gaps if g.first_hour is not None)

    def encode(self) -> tuple[bytes, str]:
        """The object's bytes and its key. Raises ChunkError for one that does not add up."""
        self.check()
        fields = {"manifest_version": MANIFEST_VERSION, **asdict(self)}
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        if len(text) > MOST_TEXT:
            raise ChunkError(
                f"The manifest of {self.archive} {self.hour} would have {len(text):,} bytes, more than {MOST_TEXT:,}",
                "Give the archive larger chunks: max_messages, max_bytes, max_age",
            )
        data = zstandard.ZstdCompressor(level=9, write_checksum=True).compress(text)
        return data, manifest_key(self.prefix, self.archive, self.hour, self.number, hashlib.sha256(data).hexdigest())

    def check(self) -> None:
        """Raises ChunkError unless chunks, gaps and other hours tile each part, no chunk has more messages than
        sequences, and what is missing may belong to this hour."""
        for part in self.parts:
            tiles_of = (*part.chunks, *part.gaps, *part.others)
            ranges = sorted(SeqRange(tile.first_seq, tile.last_seq) for tile in tiles_of)
            tiles = [SeqRange(0, part.first_seq - 1), *ranges, SeqRange(part.last_seq + 1, 0)]
            for before, after in pairwise(tiles):
                if after.first != before.last + 1 or (after in ranges and after.size < 1):
                    what = "are in no chunk and no gap" if after.first > before.last + 1 else "are there twice"
                    raise ChunkError(
                        f"The manifest of {self.archive} {self.hour} does not add up: sequences between {before.last} "
                        f"and {after.first} {what}",
                        "Is the hour complete? See the check no_gaps",
                    )
            if any(not 0 < c.messages <= c.last_seq - c.first_seq + 1 for c in part.chunks):
                raise ChunkError(f"The manifest of {self.archive} {self.hour} counts messages that cannot be", DAMAGED)
            if not all(self._may_hold(gap) for gap in part.gaps) or any(o.hour == self.hour for o in part.others):
                raise ChunkError(f"The manifest of {self.archive} {self.hour} has what is of another hour", DAMAGED)

    def _may_hold(self, gap: ManifestGap) -> bool:
        """True if the gap's hours match its reason, and this hour is among them."""
        first, last = gap.first_hour, gap.last_hour
        if gap.reason in NOT_MISSING:
            return (first, last, gap.after_ns, gap.before_ns) == (None,) * 4
        return first is not None and last is not None and first <= self.hour <= last


def decode_manifest(data: bytes) -> Manifest:
    """The manifest that `encode` wrote. Raises ChunkError for anything else, and for a newer version."""
    try:
        fields: dict[str, Any] = json.loads(decompressed(data))
        version = fields.pop("manifest_version")
    except (zstandard.ZstdError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ChunkError("The object is not a manifest", DAMAGED) from error
    if version != MANIFEST_VERSION:
        raise ChunkError(f"The manifest has version {version}, this release reads {MANIFEST_VERSION}", NEWER)
    try:
        manifest = _adapter().validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ChunkError(f"The manifest cannot be read: {where}: {first['msg']}", DAMAGED) from error
    manifest.check()
    return manifest


def decompressed(data: bytes) -> bytes:
    """The content of one whole frame. Raises ValueError for anything else, and for more than MOST_TEXT bytes;
    ZstdError."""
    # Bit by bit: neither the frame's own word for its size nor its content decides how much memory it takes.
    stream = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()
    text, at = bytearray(), 0
    while at < len(data) and not stream.eof:
        text += stream.decompress(data[at : at + _STEP])
        at += _STEP
        if len(text) > MOST_TEXT:
            raise ValueError("more than a manifest has")
    if not stream.eof or stream.unused_data or at < len(data):
        raise ValueError("not one whole frame")
    return bytes(text)


def manifest_key(prefix: str, archive: str, hour: str, number: int, sha256: str) -> str:
    """Returns the key, in the folder of the hour's chunks: `.../hour=HH/manifest-<number>-<sha256[:12]>.json.zst`, the
    number with four digits."""
    return f"{hour_folder(prefix, archive, hour)}/manifest-{number:04d}-{sha256[:12]}.json.zst"


def manifest_number(key: str) -> int:
    """The number of the manifest with this key; 0 for any other object."""
    match = _KEY.search(key)
    return int(match[3]) if match else 0


def manifest_hour(key: str) -> str:
    """The hour of the manifest with this key; empty for any other object."""
    match = _KEY.search(key)
    return f"{match[1]}-{match[2]}:00" if match else ""


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)
