"""Presence: whether the objects of chunks are in the store, each with its size."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from nats3_dagster.errors import ObjectMissing
from nats3_dagster.model import Chunk
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# Requests at a time: a store answers each in some 20 ms.
THREADS = 16
# From this number of chunks in a folder on, the folder is listed: one request for 1,000 objects, and not for one.
LISTED = 4


def check_objects(workspace: Workspace, chunks: Iterable[Chunk]) -> None:
    """Every object is there with its size. Raises ObjectMissing or StoreError."""
    folders: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        folders.setdefault((chunk.meta.bucket, chunk.meta.key.rpartition("/")[0]), []).append(chunk)
    buckets = {name: workspace.bucket(name) for name, _ in folders}
    with ThreadPoolExecutor(THREADS, "nats3-look") as pool:
        looks = [pool.submit(_check, buckets[name], folder, own) for (name, folder), own in folders.items()]
        try:
            for look in looks:
                look.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _check(bucket: Bucket, folder: str, chunks: Sequence[Chunk]) -> None:
    listed: Mapping[str, int] = dict(bucket.list(folder)) if len(chunks) >= LISTED and folder else {}
    for chunk in chunks:
        if listed.get(chunk.meta.key) == chunk.meta.stored_bytes:
            continue
        # The store is asked for the object itself before it counts as missing.
        size = bucket.head(chunk.meta.key).size
        if size != chunk.meta.stored_bytes:
            raise ObjectMissing(
                f"{chunk.meta.key} has {size} bytes and not {chunk.meta.stored_bytes}",
                "It was truncated or replaced: restore it from a copy, or capture the hour again",
            )
