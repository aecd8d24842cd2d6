"""Removing: archives, and objects that no live chunk has any more.

Invariant: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk has it
(catalog.removals), and a process that dies in between leaves an object that the next call removes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.durables import drop
from nats3_dagster.errors import SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import ArchiveSpec
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
    # The durable that was deleted in the stream; None where the archive had none of its own, or it was kept.
    consumer: str | None = None


def _ignore(done: int, total: int) -> None:
    """No progress is shown."""


def delete(
    workspace: Workspace, name: str, *, purge: bool = False, keep_consumer: bool = False,
    on_progress: OnProgress = _ignore,
) -> Deleted:  # fmt: skip
    """Take the archive out of the catalog, and delete the durable that it made unless `keep_consumer`; with `purge`
    remove its objects too. Raises OperatorError when there is none, StoreError; the next call removes the rest.
    SourceError when NATS does not delete the durable: the archive is gone then, and the durable is not."""
    spec = workspace.catalog.archives.get(name).spec
    chunks = workspace.catalog.archives.delete(name)
    objects = remove_dead(workspace, name, on_progress) if purge else 0
    consumer = spec.durable if spec.owns_durable and not keep_consumer and _drop(workspace, spec) else None
    return Deleted(chunks, objects, consumer)


def _drop(workspace: Workspace, spec: ArchiveSpec) -> bool:
    try:
        return drop(workspace, spec)
    except SourceError as error:
        raise SourceError(
            f"Archive {spec.name} is deleted, and its consumer {spec.durable} of stream {spec.stream} is not: "
            f"{error.what}",
            "Delete it: the stream keeps messages for it",
        ) from error


def remove_dead(workspace: Workspace, archive_name: str, on_progress: OnProgress = _ignore) -> int:
    """Delete the objects of the archive's retired chunks and superseded manifests; how many.

    `on_progress(done, total)` counts objects. Raises StoreError; the next call does the rest."""
    removals = workspace.catalog.removals
    # An archive deleted and made again captures the same bytes under the same key: two dead chunks, one object.
    dead = {(d.bucket, d.key): None for d in removals.dead_objects(archive_name)}
    removed = 0
    for bucket_name in sorted({bucket for bucket, _ in dead}):
        keys = [key for of, key in dead if of == bucket_name]
        before = removed
        removed += remove_objects(
            workspace, bucket_name, keys, lambda done, _, before=before: on_progress(before + done, len(dead))
        )
    return removed


def remove_objects(
    workspace: Workspace, bucket_name: str, keys: Sequence[str], on_progress: OnProgress = _ignore
) -> int:
    """Delete those of the objects that no live chunk and no seal has; how many. Raises StoreError."""
    removals, bucket = workspace.catalog.removals, workspace.bucket(bucket_name)
    removed = 0
    for at in range(0, len(keys), PAGE):
        claimed = removals.claim(bucket_name, keys[at : at + PAGE])
        fault_point("delete.claimed")
        gone: list[str] = []
        try:
            for key in claimed:
                bucket.delete(key)
                fault_point("delete.deleted")
                gone.append(key)
                on_progress(removed + len(gone), len(keys))
        finally:
            removals.finish(bucket_name, gone)
        fault_point("delete.finished")
        removed += len(gone)
    return removed
