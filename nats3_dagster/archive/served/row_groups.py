"""Row groups of chunks that were read lately, decoded: the next message of such a group costs no request.

Invariant: a group is kept under the SHA-256 of its object, and only after its pages were checked. Whether its chunk is
live is for the catalog to say.
"""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

# Memory that they may take, in bytes.
MAX_BYTES = 128 << 20


class _Group(NamedTuple):
    first: int
    last: int
    batch: pa.RecordBatch


class RowGroups:
    """The groups that were used last. Safe to use from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._bytes, self._lock = max_bytes, 0, Lock()
        self._kept: OrderedDict[tuple[str, int], _Group] = OrderedDict()
        # Indices by the SHA-256 of the object.
        self._of_object: dict[str, list[int]] = {}

    def find(self, sha256: str, seq: int) -> pa.RecordBatch | None:
        """The group of this object that may have this sequence, if it is kept."""
        with self._lock:
            for index in self._of_object.get(sha256, ()):
                group = self._kept[sha256, index]
                if group.first <= seq <= group.last:
                    self._kept.move_to_end((sha256, index))
                    return group.batch
        return None

    def put(self, sha256: str, index: int, first: int, last: int, batch: pa.RecordBatch) -> None:
        """Keep a group of these sequences, and drop those that were not used for longest."""
        with self._lock:
            if (sha256, index) in self._kept or batch.nbytes > self._max_bytes:
                return
            self._kept[sha256, index] = _Group(first, last, batch)
            self._of_object.setdefault(sha256, []).append(index)
            self._bytes += batch.nbytes
            while self._bytes > self._max_bytes:
                (old, at), dropped = self._kept.popitem(last=False)
                self._bytes -= dropped.batch.nbytes
                self._of_object[old].remove(at)
                if not self._of_object[old]:
                    del self._of_object[old]
