"""Any bucket: what reads a chunk takes it from the archive's bucket, or from a copy if the object cannot be had there.

Invariant: what comes from a copy is proven as the object itself would be, and is said in the log. Nothing is written.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from nats3_dagster.errors import StoreError
from nats3_dagster.model import Chunk
from nats3_dagster.objects import Bucket

T = TypeVar("T")
log = logging.getLogger(__name__)


def from_any_bucket(chunk: Chunk, bucket_of: Callable[[str], Bucket], read: Callable[[Bucket], T]) -> T:
    """The result of `read` for the chunk's object, from the first bucket where that succeeds. If it succeeds in none,
    raises what it raised for the archive's own."""
    try:
        return read(bucket_of(chunk.stored.bucket))
    except StoreError as error:
        found = from_copies(chunk, bucket_of, read, because=error)
        if found is None:
            raise
        return found


def from_copies(
    chunk: Chunk, bucket_of: Callable[[str], Bucket], read: Callable[[Bucket], T], *, because: StoreError | None = None
) -> T | None:
    """The result of `read` for the object, from the first copy where that succeeds; None if it succeeds in none.
    `because`: the answer of the archive's own bucket, which is logged with the copy that was read instead."""
    for name in chunk.copies:
        try:
            found = read(bucket_of(name))
        except StoreError as error:
            log.warning("The copy of chunk %d in the bucket %s cannot be used: %s", chunk.id, name, error.what)
            continue
        if because is not None:
            log.warning("Chunk %d was read from its copy in the bucket %s: %s", chunk.id, name, because.what)
        return found
    return None
