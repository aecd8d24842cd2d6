"""Removing: archives, and objects that no live chunk has any more.

Invariant: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk has it
(catalog.removals), and a process that dies in between leaves an object that the next call removes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive import status
from nats3_dagster.archive.take.durables import drop
from nats3_dagster.errors import OperatorError, SourceError
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


@dataclass(frozen=True, slots=True)
class ToDelete:
    """What there is to delete of a name."""

    # The archive's; None where it was deleted before.
    holdings: status.Holdings | None
    # Objects of deleted archives of this name that are still in the store.
    left: int


def _ignore(done: int, total: int) -> None:
    """No progress is shown."""


def to_delete(workspace: Workspace, name: str, *, purge: bool = False) -> ToDelete:
    """What `delete` would do. Raises OperatorError when there is no such archive, and with `purge` no object left of a
    deleted one."""
    left = sum(1 for _ in workspace.catalog.removals.dead_objects(name)) if purge else 0
    try:
        return ToDelete(status.holdings(workspace, name), left)
    except OperatorError:
        if not left:
            raise
        return ToDelete(None, left)


def delete(
    workspace: Workspace, name: str, *, purge: bool = False, keep_consumer: bool = False,
    on_progress: OnProgress = _ignore,
) -> Deleted:  # fmt: skip
    """Take the archive out of the catalog, and delete the durable that it made unless `keep_consumer`; with `purge`
    remove its objects too, and those that a purge before left. Raises OperatorError when there is nothing to delete;
    StoreError: then the next call with `purge` removes the rest. SourceError when NATS does not delete the durable: the
    archive is gone then, and the durable is not."""
    held = to_delete(workspace, name, purge=purge).holdings
    spec = held.archive.spec if held else None
    if spec and purge:
        # No object has this key. Who may not delete shall find it out while the archive is still there.
        workspace.bucket(spec.bucket).delete("/".join(filter(None, (spec.prefix, f"archive={name}", ".nats3-purge"))))
    chunks = workspace.catalog.archives.delete(name) if spec else 0
    objects = remove_dead(workspace, name, on_progress) if purge else 0
    owned = spec is not None and spec.owns_durable and not keep_consumer
    consumer = spec.durable if spec and owned and _drop(workspace, spec) else None
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
        with removals.alone(bucket_name):
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
