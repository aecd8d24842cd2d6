"""Removal of objects that no live chunk has any more, now or after a time of grace.

Invariant: the catalog lets go first, then the object goes. Postgres gives out a key only while no live chunk has it
(catalog.removals), and a process that dies in between leaves an object that the next call removes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.stored import copies, folder
from nats3_dagster.errors import AccessRefused, Nats3Error, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.workspace import Workspace

# Reserved, deleted and finished together: Postgres is asked three times for this number of objects.
PAGE = 500
# Deleted between two looks at the owners of their folders: another catalog that takes one over meanwhile loses no more
# than these.
BATCH = 50
# Rounds of cleaning by one command: some million rows of each table.
ROUNDS = 200
OnProgress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Swept:
    """Objects that were removed, or would be."""

    objects: int
    # As stored.
    bytes: int


@dataclass(frozen=True, slots=True)
class OrphanObject:
    """An object that no row names."""

    archive: str
    key: str
    stored_bytes: int
    # Why it stays; empty for one that may be removed.
    kept: str = ""


# The parts of an archive that a sweep of orphans looks at.
FOLDER, UPLOADS = "its folder", "uploads that did not end"


@dataclass(frozen=True, slots=True)
class Unseen:
    """A part of an archive that the sweep of orphans could not look at."""

    archive: str
    # FOLDER or UPLOADS.
    part: str
    problem: Nats3Error


@dataclass(frozen=True, slots=True)
class SweptOrphans:
    """The orphans of all archives, and what could not be looked at."""

    orphans: list[OrphanObject] = field(default_factory=list[OrphanObject])
    unseen: list[Unseen] = field(default_factory=list[Unseen])


def no_progress(done: int, total: int) -> None:
    """Shows no progress."""


def remove_dead(workspace: Workspace, archive_name: str, on_progress: OnProgress = no_progress) -> int:
    """Delete the objects of the archive's retired chunks and superseded manifests; of deleted archives also those in
    copies, and the owner objects of their folders. Returns the number of the first.

    `on_progress(done, total)` counts objects. Raises StoreError, or Conflict while another process creates an archive
    of the name; the next call does the rest."""
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
    for archive in workspace.catalog.archives.deleted(archive_name):
        copies.purge(workspace, archive)
    # Last: without its owner object a folder that has chunks looks like that of another store.
    folder.release(workspace, archive_name)
    return removed


def remove_objects(
    workspace: Workspace, bucket_name: str, keys: Sequence[str], on_progress: OnProgress = no_progress
) -> int:
    """Delete those of the objects that no live chunk and no seal has; how many. Raises StoreError."""
    removed = 0
    for at in range(0, len(keys), PAGE):
        with workspace.catalog.removals.alone(bucket_name):
            page = keys[at : at + PAGE]
            removed += len(_remove(workspace, bucket_name, page, lambda n, of=removed: on_progress(of + n, len(keys))))
    return removed


def sweepable(workspace: Workspace) -> Swept:
    """Returns the objects that `sweep` would remove now."""
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


def clean(workspace: Workspace, *, rounds: int = ROUNDS) -> int:
    """Let the catalog forget what nothing has needed for `history_keep` seconds, in `rounds` at most; the number of
    rows. Raises CatalogError; the next call does the rest."""
    rows = 0
    for _ in range(rounds):
        cleaned = workspace.catalog.cleaning.clean(workspace.settings.history_keep)
        rows += cleaned.rows
        if not cleaned.is_full:
            break
    return rows


def _remove(
    workspace: Workspace, bucket_name: str, keys: Sequence[str], on_count: Callable[[int], object] = lambda count: None
) -> list[str]:
    """Delete those of the objects that no live chunk and no seal has, and no hold keeps; their keys. Call it under
    `removals.alone`. Raises StoreError, after the others are gone, for those that the store does not let go."""
    removals, bucket = workspace.catalog.removals, workspace.bucket(bucket_name)
    folder.check_removable(workspace, bucket_name, keys)
    reserved = removals.reserve(bucket_name, keys)
    fault_point("delete.claimed")
    gone: list[str] = []
    # Objects that the store does not let go, and why.
    locked: list[str] = []
    refusal: StoreError | None = None
    try:
        for at in range(0, len(reserved), BATCH):
            batch = reserved[at : at + BATCH]
            try:
                folder.check_removable(workspace, bucket_name, batch)
            except StoreError:
                removals.release(bucket_name, reserved[at:])
                raise
            for key in batch:
                try:
                    bucket.delete(key)
                except AccessRefused as error:
                    locked.append(key)
                    refusal = refusal or error
                    continue
                fault_point("delete.deleted")
                gone.append(key)
                on_count(len(gone))
    finally:
        removals.finish(bucket_name, gone)
        if locked:
            removals.refused(bucket_name, locked)
    fault_point("delete.finished")
    if refusal:
        raise StoreError(
            f"{len(locked):,} objects stay, {locked[0]} first: {refusal.what}",
            "If Object Lock or a retention policy of the bucket keeps them, they go after it ends; else grant "
            "s3:DeleteObject",
        ) from refusal
    return gone
