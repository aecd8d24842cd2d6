"""The object beside an hour's chunks that has the consumers of the stream as they were at a time.

Invariant: the same consumers at the same time give the same bytes and the same key. JSON, compressed with zstandard.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.chunks.manifest import MOST_TEXT, NEWER, decompressed
from nats3_dagster.chunks.naming import hour_folder
from nats3_dagster.errors import ChunkError
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Incarnation
from nats3_dagster.model.consumer import ConsumerPosition, KeptConsumers, Pair

CONSUMERS_VERSION = 1
_KEY = re.compile(
    r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/consumers-(\d{8}T\d{15}Z)-(\d{20})-[0-9a-f]{12}\.json\.zst\Z", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ConsumersDocument:
    """The durables of a stream at one time."""

    archive: str
    stream: str
    prefix: str
    created_ns: int  # when the stream was created: with the name, the incarnation
    observed_ns: int  # when the stream was asked
    last_seq: int  # of the stream then, or a little later
    consumers: tuple[ConsumerPosition, ...]  # by name

    @property
    def hour(self) -> str:
        return hour_of(self.observed_ns)

    @property
    def content(self) -> str:
        """SHA-256 of what is said of the consumers, without the time, in hex."""
        return hashlib.sha256(_text([_plain(one) for one in self.consumers])).hexdigest()

    def encode(self) -> tuple[bytes, str]:
        """The object's bytes and its key. Raises ChunkError for one that is too large."""
        text = _text(
            {
                "consumers_version": CONSUMERS_VERSION,
                "archive": self.archive,
                "stream": self.stream,
                "prefix": self.prefix,
                "created_ns": self.created_ns,
                "observed_ns": self.observed_ns,
                "last_seq": self.last_seq,
                "consumers": [_plain(one) for one in self.consumers],
            }
        )
        if len(text) > MOST_TEXT:
            raise ChunkError(
                f"The positions of the consumers of stream {self.stream} take {len(text):,} bytes, more than "
                f"{MOST_TEXT:,}",
                "Lower max_ack_pending of the consumers",
            )
        data = zstandard.ZstdCompressor(level=9, write_checksum=True).compress(text)
        return data, self._key(hashlib.sha256(data).hexdigest())

    def kept(self, bucket: str, key: str, data: bytes) -> KeptConsumers:
        """The object that has these bytes, as the catalog keeps it."""
        sha256 = hashlib.sha256(data).hexdigest()
        return KeptConsumers(
            self.hour,
            self.observed_ns,
            self.last_seq,
            len(self.consumers),
            self.content,
            bucket,
            key,
            sha256,
            len(data),
        )

    def _key(self, sha256: str) -> str:
        token = Incarnation(self.stream, self.created_ns).token
        folder = hour_folder(self.prefix, self.archive, self.hour)
        return f"{folder}/consumers-{token}-{self.observed_ns:020d}-{sha256[:12]}.json.zst"


def decode_consumers(data: bytes, key: str) -> ConsumersDocument:
    """The document of this key. Raises ChunkError for anything else, and for a newer version."""
    try:
        fields: dict[str, Any] = json.loads(decompressed(data))
        version = fields["consumers_version"]
        if version != CONSUMERS_VERSION:
            raise ChunkError(f"The consumers have version {version}, this release reads {CONSUMERS_VERSION}", NEWER)
        document = ConsumersDocument(
            str(fields["archive"]),
            str(fields["stream"]),
            str(fields["prefix"]),
            int(fields["created_ns"]),
            int(fields["observed_ns"]),
            int(fields["last_seq"]),
            tuple(map(_position, fields["consumers"])),
        )
        if document._key(hashlib.sha256(data).hexdigest()) != key:  # pyright: ignore[reportPrivateUsage]
            raise ValueError("another key")
    except (zstandard.ZstdError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ChunkError(f"The object {key} does not have the consumers of its key", DAMAGED) from error
    return document


def consumers_key(key: str) -> tuple[str, str, int] | None:
    """The hour, the incarnation's token and the time of the observation; None for any other object."""
    match = _KEY.search(key)
    return (f"{match[1]}-{match[2]}:00", match[3], int(match[4])) if match else None


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _plain(one: ConsumerPosition) -> dict[str, Any]:
    return {
        "name": one.name,
        "config": one.config,
        "exact": one.exact,
        "delivered": list(one.delivered),
        "ack_floor": list(one.ack_floor),
        "pending": [[seq, *value] for seq, value in sorted(one.pending.items())],
        "redelivered": [list(item) for item in sorted(one.redelivered.items())],
    }


def _position(fields: Mapping[str, Any]) -> ConsumerPosition:
    def pair(value: Sequence[Any]) -> Pair:
        consumer, stream = map(int, value)
        return Pair(consumer, stream)

    config: dict[str, Any] = {**fields["config"]}
    return ConsumerPosition(
        str(fields["name"]),
        config,
        pair(fields["delivered"]),
        pair(fields["ack_floor"]),
        {int(seq): (int(number), int(time_ns)) for seq, number, time_ns in fields["pending"]},
        {int(seq): int(times) for seq, times in fields["redelivered"]},
        bool(fields["exact"]),
    )
