"""Uploading: one chunk goes to the store while the next one is read and compressed.

Invariant: a chunk comes back only when the store has it, in the order in which the chunks were given. One is under way
at most, so a worker holds one compressed chunk more.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import ChunkMeta


class Puts(Protocol):
    """The interface that takes objects."""

    def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool: ...


class Uploads:
    """Use it as a context manager: leaving it waits for the upload that is under way."""

    def __init__(self, bucket: Puts) -> None:
        self._bucket = bucket
        self._pool = ThreadPoolExecutor(1, "upload")
        self._under_way: Future[ChunkMeta] | None = None

    def __enter__(self) -> "Uploads":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def put(self, meta: ChunkMeta, data: pa.Buffer) -> Iterator[ChunkMeta]:
        """Begin to put `data`; yields the chunk before it, which is in the store now. Raises StoreError of that one."""
        before = list(self.finish())
        self._under_way = self._pool.submit(self._put, meta, data)
        yield from before

    def finish(self) -> Iterator[ChunkMeta]:
        """Wait for what is under way, and yield it. Raises StoreError."""
        under_way, self._under_way = self._under_way, None
        if under_way:
            yield under_way.result()

    def _put(self, meta: ChunkMeta, data: pa.Buffer) -> ChunkMeta:
        fault_point("capture.before_put")
        self._bucket.put_new(meta.key, memoryview(data), meta.sha256)
        fault_point("capture.object_put")
        return meta
