"""Removing: archives, and objects that no live chunk has any more, now or after a time of grace.

Invariant: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk has it
(catalog.removals), and a process that dies in between leaves an object that the next call removes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive import folder, status
from nats3_dagster.archive.take.durables import drop
from nats3_dagster.errors import OperatorError, SourceError, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.take.durable import find_durable
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace

# Claimed, deleted and finished together: Postgres is asked three times for so many objects.
PAGE = 500
# Deleted between two looks at the owners of their folders: another catalog that takes one over meanwhile loses no more
# than these.
BATCH = 50
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
class Swept:
    """Objects that were removed, or would be."""

    objects: int
    # As stored.
    bytes: int


@dataclass(frozen=True, slots=True)
class ToDelete:
    """What there is to delete of a name."""

    # The archive's; None where it was deleted before.
    holdings: status.Holdings | None
    # Objects of deleted archives of this name that are still in the store, owner objects among them.
    left: int


def _ignore(done: int, total: int) -> None:
    """No progress is shown."""


def to_delete(workspace: Workspace, name: str, *, purge: bool = False) -> ToDelete:
    """What `delete` would do. Raises OperatorError when there is no such archive, and with `purge` no object left of a
    deleted one."""
    try:
        held = status.holdings(workspace, name)
    except OperatorError:
        objects = left(workspace, name) if purge else 0
        if not objects:
            raise
        return ToDelete(None, objects)
    return ToDelete(held, left(workspace, held.archive.name) if purge else 0)


def left(workspace: Workspace, name: str) -> int:
    """How many objects of deleted archives of this name, and of retired chunks, are still in the store."""
    return sum(1 for _ in workspace.catalog.removals.dead_objects(name)) + len(folder.obsolete(workspace, name))


def delete(
    workspace: Workspace, name: str, *, purge: bool = False, keep_consumer: bool = False,
    on_progress: OnProgress = _ignore,
) -> Deleted:  # fmt: skip
    """Take the archive out of the catalog, and delete the durable that it made unless `keep_consumer`; with `purge`
    remove its objects too, and those that a purge before left. Raises OperatorError when there is nothing to delete;
    StoreError: then the next call with `purge` removes the rest; what `check` raises, and then nothing was done.
    SourceError when NATS does not delete the durable: the archive is gone then, and the durable is not."""
    held = to_delete(workspace, name, purge=purge).holdings
    spec = held.archive.spec if held else None
    if spec and not keep_consumer:
        check(workspace, spec)
    name = spec.name if spec else name
    if spec and purge:
        # No object has this key. Who may not delete shall find it out while the archive is still there.
        probe = "/".join(filter(None, (spec.prefix, f"archive={name}", ".nats3-purge")))
        workspace.bucket(spec.bucket).delete(probe)
        folder.check_removable(workspace, spec.bucket, [probe])
    chunks = workspace.catalog.archives.delete(name) if spec else 0
    objects = remove_dead(workspace, name, on_progress) if purge else 0
    owned = spec is not None and spec.owns_durable and not keep_consumer
    consumer = spec.durable if spec and owned and _drop(workspace, spec) else None
    return Deleted(chunks, objects, consumer)


def check(workspace: Workspace, spec: ArchiveSpec) -> None:
    """Raises OperatorError where NATS is not set, SourceError where it does not answer, if the archive has a durable
    to be deleted with it: without the archive nothing would say that the durable is to go."""
    if not spec.owns_durable:
        return
    try:
        find_durable(workspace.link, spec.stream, spec.own_durable)
    except (OperatorError, SourceError) as error:
        raise type(error)(
            f"Archive {spec.name} was not deleted: its consumer {spec.durable} of stream {spec.stream} is to go with "
            f"it, or to be kept. {error.what}",
            error.hint,
        ) from error


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
    """Delete the objects of the archive's retired chunks and superseded manifests, and the owner objects of folders
    whose archive is deleted; how many of the former.

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
    # Last: without its owner object a folder that has chunks looks like that of another store.
    for bucket_name, path in folder.obsolete(workspace, archive_name):
        folder.release(workspace, bucket_name, path)
    return removed


def remove_objects(
    workspace: Workspace, bucket_name: str, keys: Sequence[str], on_progress: OnProgress = _ignore
) -> int:
    """Delete those of the objects that no live chunk and no seal has; how many. Raises StoreError."""
    removed = 0
    for at in range(0, len(keys), PAGE):
        with workspace.catalog.removals.alone(bucket_name):
            page = keys[at : at + PAGE]
            removed += len(_remove(workspace, bucket_name, page, lambda n, of=removed: on_progress(of + n, len(keys))))
    return removed


def sweepable(workspace: Workspace) -> Swept:
    """What `sweep` would remove now."""
    found = workspace.catalog.removals.sweepable(workspace.settings.delete_grace)
    return Swept(len(found), sum(found.values()))


def sweep(workspace: Workspace, limit: int | None = None) -> Swept:
    """Remove the objects of chunks that were retired, and of manifests after which an hour was sealed again, once
    `delete_grace` seconds have passed since; at most `limit`. What an archive had that was deleted without its objects
    stays. A bucket that fails does not stop the others. Raises StoreError; the next call does the rest."""
    removals, grace_s = workspace.catalog.removals, workspace.settings.delete_grace
    found = removals.sweepable(grace_s, limit=limit)
    objects = size = 0
    failure: StoreError | None = None
    for bucket_name in sorted({bucket for bucket, _ in found}):
        rest = sum(1 for bucket, _ in found if bucket == bucket_name)
        try:
            while rest > 0:
                with removals.alone(bucket_name):
                    # Asked again: another sweep may have been here first.
                    sizes = removals.sweepable(grace_s, bucket=bucket_name, limit=min(rest, PAGE))
                    gone = _remove(workspace, bucket_name, [key for _, key in sizes])
                objects, size = objects + len(gone), size + sum(sizes[bucket_name, key] for key in gone)
                rest = rest - len(gone) if gone else 0
        except StoreError as error:
            failure = failure or error
    if failure:
        raise failure
    return Swept(objects, size)


def _remove(
    workspace: Workspace, bucket_name: str, keys: Sequence[str], on_count: Callable[[int], object] = lambda count: None
) -> list[str]:
    """Delete those of the objects that no live chunk and no seal has; their keys. Call it under `removals.alone`."""
    removals, bucket = workspace.catalog.removals, workspace.bucket(bucket_name)
    folder.check_removable(workspace, bucket_name, keys)
    claimed = removals.claim(bucket_name, keys)
    fault_point("delete.claimed")
    gone: list[str] = []
    try:
        for at in range(0, len(claimed), BATCH):
            batch = claimed[at : at + BATCH]
            try:
                folder.check_removable(workspace, bucket_name, batch)
            except StoreError:
                removals.release(bucket_name, claimed[at:])
                raise
            for key in batch:
                bucket.delete(key)
                fault_point("delete.deleted")
                gone.append(key)
                on_count(len(gone))
    finally:
        removals.finish(bucket_name, gone)
    fault_point("delete.finished")
    return gone
