"""Fetching chunks: each object is read ahead and proven against the catalog before anything is done with it."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from nats3_dagster.archive.stored.any_bucket import from_any_bucket
from nats3_dagster.archive.stored.ranged import open_part
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.model import Chunk
from nats3_dagster.objects import Bucket

BucketOf = Callable[[str], Bucket]


def fetch_chunks(bucket_of: BucketOf, chunks: Iterable[Chunk], ahead: int) -> Iterator[tuple[Chunk, ChunkReader]]:
    """Each chunk with its proven content, in order. Raises StoreError, ObjectMissing or ChunkError for the first chunk
    that cannot be had. `ahead` chunks are fetched while one is worked on: at 64 MiB a chunk, each costs memory. A
    merged chunk is read from its part of the other chunk, row group by row group. One whose object is missing or
    damaged is read from a copy."""
    for chunk, reader in fetch_each(bucket_of, chunks, ahead, or_copies=True):
        yield chunk, reader.result()


def fetch_each(
    bucket_of: BucketOf, chunks: Iterable[Chunk], ahead: int, *, or_copies: bool = False
) -> Generator[tuple[Chunk, Future[ChunkReader]]]:
    """Yields the chunks as `fetch_chunks` does, but what a chunk fails of is raised by its future's `result()`, and
    others follow. Copies are asked with `or_copies` only."""

    def fetch(chunk: Chunk) -> ChunkReader:
        def read(bucket: Bucket) -> ChunkReader:
            if chunk.merged_into:
                return open_part(bucket, chunk.merged_into, chunk.meta.covers)
            return open_chunk(bucket.get(chunk.meta.key, chunk.meta.stored_bytes), chunk.meta)

        return from_any_bucket(chunk, bucket_of, read) if or_copies else read(bucket_of(chunk.stored.bucket))

    waiting: deque[tuple[Chunk, Future[ChunkReader]]] = deque()
    pool = ThreadPoolExecutor(max(ahead, 1), thread_name_prefix="fetch")
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(fetch, chunk)))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        # A caller that stops early does not wait for what it will not use.
        pool.shutdown(cancel_futures=True)
