"""Footers of chunks that were read before, so that the next message of such a chunk costs one read of its object.

Invariant: a footer is kept under the object's place and SHA-256, and only after its digest was checked; an object with
other bytes is another entry.
"""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import pyarrow.parquet as pq

from nats3_dagster.chunks.footer import Footer

# Memory that the footers of one workspace may take, in bytes, as `ParsedFooter.cost` counts: those of 300 chunks of 50
# MB, and of more that are smaller.
MAX_BYTES = 64 << 20


class ParsedFooter(NamedTuple):
    """The parsed end of an object."""

    # Offsets and encodings of the column chunks.
    parquet: pq.FileMetaData
    # What the chunk says of itself, proven by its digest.
    footer: Footer
    # Where Parquet's footer begins in the object.
    start: int

    @property
    def cost(self) -> int:
        """Bytes of memory, at most about: 455 KB were measured for 76 KB of footer, 187 KB for 26, 19 KB for 1.4."""
        return (12 << 10) + 8 * self.parquet.serialized_size


class FooterCache:
    """The footers that were used last. Safe to use from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._footers: OrderedDict[tuple[str, str, str], ParsedFooter] = OrderedDict()
        self._bytes = 0

    def get(self, bucket: str, key: str, sha256: str) -> ParsedFooter | None:
        with self._lock:
            parsed = self._footers.get((bucket, key, sha256))
            if parsed is not None:
                self._footers.move_to_end((bucket, key, sha256))
            return parsed

    def put(self, bucket: str, key: str, sha256: str, parsed: ParsedFooter) -> None:
        """Keep it, and drop those that were not used for longest. One that alone exceeds the limit is not kept."""
        with self._lock:
            if (bucket, key, sha256) in self._footers:
                return
            self._footers[bucket, key, sha256] = parsed
            self._bytes += parsed.cost
            while self._bytes > self._max_bytes:
                _, dropped = self._footers.popitem(last=False)
                self._bytes -= dropped.cost

    def __len__(self) -> int:
        return len(self._footers)
