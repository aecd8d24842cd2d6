"""Uploading: chunks go to the store while later ones are read and compressed.

Invariant: a chunk comes back only when the store has it, in the order in which the chunks were given. A large one is
under way alone, and small ones together only up to AT_ONCE_BYTES, so a worker holds little more than one compressed
chunk.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Protocol

import pyarrow as pa

from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import ChunkMeta

# Chunks that are under way at a time. The time of a small one is the store's answer, 30 ms and more of S3.
AT_ONCE = 8
AT_ONCE_BYTES = 8 << 20


class Puts(Protocol):
    """The interface that takes objects."""

    def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool: ...


class _Upload(NamedTuple):
    """A chunk that is under way."""

    meta: ChunkMeta
    done: Future[ChunkMeta]


class Uploads:
    """Use it as a context manager: leaving it waits for the uploads that are under way."""

    def __init__(self, bucket: Puts) -> None:
        self._bucket = bucket
        self._pool = ThreadPoolExecutor(AT_ONCE, "upload")
        self._under_way: deque[_Upload] = deque()
        # The chunk that the store did not take.
        self.failed: ChunkMeta | None = None

    def __enter__(self) -> "Uploads":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def put(self, meta: ChunkMeta, data: pa.Buffer) -> Iterator[ChunkMeta]:
        """Begin to put `data`; yields earlier chunks that are in the store now. Raises StoreError of one of them."""
        before: list[ChunkMeta] = []
        while self._under_way and not self._has_room(meta.stored_bytes):
            before.append(self._first())
        self._under_way.append(_Upload(meta, self._pool.submit(self._put, meta, data)))
        yield from before

    def finish(self) -> Iterator[ChunkMeta]:
        """Wait for what is under way, and yield it. Raises StoreError."""
        while self._under_way:
            yield self._first()

    def _has_room(self, size: int) -> bool:
        under_way = sum(upload.meta.stored_bytes for upload in self._under_way)
        return len(self._under_way) < AT_ONCE and under_way + size <= AT_ONCE_BYTES

    def _first(self) -> ChunkMeta:
        upload = self._under_way.popleft()
        try:
            return upload.done.result()
        except BaseException:
            self.failed = upload.meta
            raise

    def _put(self, meta: ChunkMeta, data: pa.Buffer) -> ChunkMeta:
        fault_point("capture.before_put")
        self._bucket.put_new(meta.key, memoryview(data), meta.sha256)
        fault_point("capture.object_put")
        return meta
