"""Removing: archives, and objects that no live chunk has any more.

Invariant: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk has it
(catalog.removals), and a process that dies in between leaves an object that the next call removes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nats3_dagster.workspace import Workspace

# Claimed, deleted and finished together: Postgres is asked three times for so many objects.
PAGE = 500
OnProgress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What went with an archive."""

    # Chunks that were live.
    chunks: int
    # Objects removed from the store.
    objects: int


def _ignore(done: int, total: int) -> None:
    """No progress is shown."""


def delete(workspace: Workspace, name: str, *, purge: bool = False, on_progress: OnProgress = _ignore) -> Deleted:
    """Take the archive out of the catalog; with `purge` remove its objects too. Raises OperatorError when there is
    none, StoreError; the next call removes the rest."""
    chunks = workspace.catalog.archives.delete(name)
    return Deleted(chunks, remove_dead(workspace, name, on_progress) if purge else 0)


def remove_dead(workspace: Workspace, archive_name: str, on_progress: OnProgress = _ignore) -> int:
    """Delete the objects of the archive's retired chunks and superseded manifests; how many.

    `on_progress(done, total)` counts objects. Raises StoreError; the next call does the rest."""
    removals = workspace.catalog.removals
    # An archive deleted and made again captures the same bytes under the same key: two dead chunks, one object.
    dead = {(d.bucket, d.key): None for d in removals.dead_objects(archive_name)}
    removed = 0
    for bucket_name in sorted({bucket for bucket, _ in dead}):
        bucket = workspace.bucket(bucket_name)
        keys = [key for of, key in dead if of == bucket_name]
        for at in range(0, len(keys), PAGE):
            claimed = removals.claim(bucket_name, keys[at : at + PAGE])
            gone: list[str] = []
            try:
                for key in claimed:
                    bucket.delete(key)
                    gone.append(key)
                    on_progress(removed + len(gone), len(dead))
            finally:
                removals.finish(bucket_name, gone)
            removed += len(gone)
    return removed
