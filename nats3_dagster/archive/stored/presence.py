"""Presence: whether the objects of chunks are in the store, each with its size."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from nats3_dagster.errors import ObjectMissing
from nats3_dagster.model import Chunk, ChunkMeta
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# Requests at a time: a store answers each in some 20 ms.
THREADS = 16
# From this number of chunks in a folder on, the folder is listed: one request for 1,000 objects, and not for one.
LISTED = 4


def check_objects(workspace: Workspace, chunks: Iterable[Chunk]) -> None:
    """Every object is there with its size. Raises ObjectMissing or StoreError."""
    folders: dict[tuple[str, str], list[ChunkMeta]] = {}
    for chunk in chunks:
        folders.setdefault((chunk.stored.bucket, chunk.stored.key.rpartition("/")[0]), []).append(chunk.stored)
    buckets = {name: workspace.bucket(name) for name, _ in folders}
    with ThreadPoolExecutor(THREADS, "nats3-look") as pool:
        looks = [pool.submit(_check, buckets[name], folder, own) for (name, folder), own in folders.items()]
        try:
            for look in looks:
                look.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _check(bucket: Bucket, folder: str, chunks: Sequence[ChunkMeta]) -> None:
    listed: Mapping[str, int] = dict(bucket.list(folder)) if len(chunks) >= LISTED and folder else {}
    for chunk in chunks:
        if listed.get(chunk.key) == chunk.stored_bytes:
            continue
        # The store is asked for the object itself before it counts as missing.
        size = bucket.head(chunk.key).size
        if size != chunk.stored_bytes:
            raise ObjectMissing(
                f"{chunk.key} has {size} bytes and not {chunk.stored_bytes}",
                "It was truncated or replaced: restore it from a copy, or capture the hour again",
            )
