"""Presence: whether the objects of chunks are in the store, each with its size."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from nats3_dagster.archive.stored.any_bucket import from_any_bucket
from nats3_dagster.errors import ObjectMissing, StoreError
from nats3_dagster.model import Chunk, ChunkMeta
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# Requests at a time: a store answers each in some 20 ms.
THREADS = 16
# From this number of chunks in a folder on, the folder is listed: one request for 1,000 objects, and not for one.
LISTED = 4


def check_objects(workspace: Workspace, chunks: Iterable[Chunk]) -> None:
    """Every object is there with its size, in the archive's own bucket or in a copy. Raises ObjectMissing or
    StoreError."""
    folders: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        folders.setdefault((chunk.stored.bucket, chunk.stored.key.rpartition("/")[0]), []).append(chunk)
    with ThreadPoolExecutor(THREADS, "nats3-look") as pool:
        looks = [pool.submit(_check, workspace, name, folder, own) for (name, folder), own in folders.items()]
        try:
            for look in looks:
                look.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _check(workspace: Workspace, bucket: str, folder: str, chunks: Sequence[Chunk]) -> None:
    listed: Mapping[str, int] = {}
    if len(chunks) >= LISTED and folder:
        with suppress(StoreError):  # then each object is asked for
            listed = dict(workspace.bucket(bucket).list(folder))
    for chunk in chunks:
        if listed.get(chunk.stored.key) != chunk.stored.stored_bytes:
            # The store is asked for the object itself before it counts as missing.
            holder(workspace, chunk)


def holder(workspace: Workspace, chunk: Chunk) -> Bucket:
    """The first bucket, the archive's own or a copy, that has the chunk's object with its size: one HEAD for each that
    is asked. Raises ObjectMissing or StoreError if there is none."""
    return from_any_bucket(chunk, workspace.bucket, partial(_look, meta=chunk.stored))


def _look(bucket: Bucket, meta: ChunkMeta) -> Bucket:
    """The bucket. Raises ObjectMissing or StoreError unless the object is there with its size."""
    size = bucket.head(meta.key).size
    if size != meta.stored_bytes:
        raise ObjectMissing(
            f"{meta.key} has {size} bytes and not {meta.stored_bytes}",
            "It was truncated or replaced: restore it from a copy, or capture the hour again",
        )
    return bucket
