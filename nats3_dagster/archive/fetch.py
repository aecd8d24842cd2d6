"""Fetch: the bytes of chunks, proven against what the catalog keeps of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from nats3_dagster.chunks.read import ChunkReader, open_chunk
from nats3_dagster.model import Chunk
from nats3_dagster.objects import Bucket


def fetch_chunks(
    bucket_of: Callable[[str], Bucket], chunks: Iterable[Chunk], ahead: int
) -> Iterator[tuple[Chunk, ChunkReader]]:
    """Each chunk with a reader of its verified content, in the order given, the next `ahead` ones being fetched
    meanwhile. Raises StoreError or ChunkError when the chunk at fault is reached."""

    def fetch(chunk: Chunk) -> ChunkReader:
        return open_chunk(bucket_of(chunk.meta.bucket).get(chunk.meta.key), chunk.meta)

    waiting: deque[tuple[Chunk, Future[ChunkReader]]] = deque()
    with ThreadPoolExecutor(ahead, thread_name_prefix="fetch") as pool:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(fetch, chunk)))
            if len(waiting) > ahead:
                fetched, future = waiting.popleft()
                yield fetched, future.result()
        for fetched, future in waiting:
            yield fetched, future.result()
