"""Copies: the objects of an archive in its other buckets, under the same keys.

Invariant: an object is put into a copy only after its bytes were read from the first bucket and have the hash that the
catalog has, by a create-only PUT that the store confirms; then the catalog forgets that it is missing there. A process
that dies in between leaves an object that the next one finds equal. One process at a time writes to a copy.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from nats3_dagster.archive.stored import erasure_records, folder, kept_settings
from nats3_dagster.archive.stored.archive_folder import folder_of
from nats3_dagster.archive.stored.unchecked import require_checked
from nats3_dagster.catalog.removal.copies import CopyTask
from nats3_dagster.errors import ChunkError, Nats3Error, OperatorError, StoreError, Unknown
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

# Objects that are looked up, copied and marked together; and at a time: each is as a whole in memory, 64 MiB at most.
PAGE = 200
AT_ONCE = 4
# Removed between two looks at the owner of their folder.
PURGED = 50
# How long another process may copy into the same bucket.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Copied:
    """The changes that were made to one copy of an archive."""

    # The copy's bucket.
    bucket: str
    # Objects that were put there or found there, and their bytes.
    objects: int
    bytes: int
    # Objects that were removed there.
    removed: int


def copy(
    workspace: Workspace, archive: Archive, hour: str | None = None, limit_bytes: int | None = None
) -> tuple[Copied, ...]:
    """Make the copies of the archive equal to its first bucket, for all hours or one; what was done for each. A copy
    that fails does not stop the others. For one hour nothing is removed: a seal does not wait for removals.
    `limit_bytes`: ends a copy once so much was put there.

    Raises StoreError, which says how many objects are missing in the copy; ChunkError for an object of the first bucket
    that is not as it was written; Conflict if another catalog's archive owns the folder there, or the archive was made
    again and its settings are not checked. The next call does the rest."""
    if archive.spec.copies:
        require_checked(workspace, archive)
    done: list[Copied] = []
    failure: StoreError | None = None
    for bucket_name in archive.spec.copies:
        if not workspace.catalog.copies.tasks(archive, bucket_name, 1, hour) and hour is not None:
            continue
        try:
            done.append(_copy(workspace, archive, bucket_name, hour, limit_bytes))
        except ChunkError:
            raise
        except StoreError as error:
            lag = workspace.catalog.copies.lags(archive).get(bucket_name)
            missing = f" is missing {lag.objects:,} objects" if lag and lag.objects else " is not reachable"
            failure = failure or type(error)(
                f"The copy of archive {archive.name} in the bucket {bucket_name!r}{missing}: {error.what}", error.hint
            )
    if failure:
        raise failure
    return tuple(done)


def copy_each(workspace: Workspace, limit_bytes: int) -> tuple[Copied, ...]:
    """`copy` for each archive whose copies miss something, or have to lose something. One that fails does not stop the
    others: then the first error is raised at the end."""
    done: list[Copied] = []
    failure: Nats3Error | None = None
    for name in workspace.catalog.copies.due_archives():
        try:
            done += copy(workspace, workspace.catalog.archives.get(name), limit_bytes=limit_bytes)
        except Nats3Error as error:
            failure = failure or error
    if failure:
        raise failure
    return tuple(done)


def purge(workspace: Workspace, archive: Archive) -> int:
    """Remove from the copies what the archive's own bucket lost; how many objects. For a deleted archive, whose folder
    may have another owner by now. Raises StoreError; the next call does the rest."""
    removed = 0
    for bucket_name in archive.spec.copies:
        with workspace.catalog.locks.copying(bucket_name, PATIENCE_S):
            while tasks := workspace.catalog.copies.removals(archive, bucket_name, PURGED):
                folder.check_removable(workspace, bucket_name, [task.key for task in tasks])
                for task in tasks:
                    workspace.bucket(bucket_name).delete(task.key)
                workspace.catalog.copies.done(tasks)
                removed += len(tasks)
    return removed


def _copy(
    workspace: Workspace, archive: Archive, bucket_name: str, hour: str | None, limit_bytes: int | None
) -> Copied:
    copies = workspace.catalog.copies
    objects = size = removed = 0
    with workspace.catalog.locks.copying(bucket_name, PATIENCE_S), ThreadPoolExecutor(AT_ONCE, "nats3-copy") as pool:
        there = folder.claim(workspace, archive, bucket_name=bucket_name)
        erasure_records.agree(workspace, there)
        fault_point("copy.claimed")
        while (limit_bytes is None or size < limit_bytes) and (
            tasks := _up_to(copies.tasks(archive, bucket_name, PAGE, hour), limit_bytes)
        ):
            puts = [task for task in tasks if not task.removes]
            try:
                list(pool.map(partial(_put, workspace), puts))
            except StoreError:
                # What other threads put is found there by the next call.
                pool.shutdown(cancel_futures=True)
                raise
            for task in tasks:
                if task.removes:
                    there.bucket.delete(task.key)
            fault_point("copy.put")
            copies.done(tasks)
            fault_point("copy.done")
            objects, size = objects + len(puts), size + sum(task.stored_bytes for task in puts)
            removed += len(tasks) - len(puts)
    return Copied(bucket_name, objects, size, removed)


def _up_to(tasks: list[CopyTask], limit_bytes: int | None) -> list[CopyTask]:
    """The first of the tasks, until they have `limit_bytes` together."""
    if limit_bytes is None:
        return tasks
    sums = accumulate(task.stored_bytes for task in tasks)
    return [task for task, size in zip(tasks, sums, strict=True) if size - task.stored_bytes < limit_bytes]


def _put(workspace: Workspace, task: CopyTask) -> None:
    data = as_written(workspace, task.source, task.key, task.sha256, "and was not copied")
    workspace.bucket(task.bucket).put_new(task.key, data, task.sha256)
    fault_point("copy.object_put")


def as_written(workspace: Workspace, source: str, key: str, sha256: str, then: str) -> memoryview:
    """The object of the first bucket. Raises ChunkError, which ends with `then`, if its SHA-256 is another one."""
    data = workspace.bucket(source).get(key)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ChunkError(
            f"{key} in the bucket {source!r} is not as it was written, {then}",
            "Verify and repair the archive's chunks first",
        )
    return data


def forget(workspace: Workspace, archive: Archive, bucket_name: str) -> None:
    """Forget a former copy: its bucket is gone for good, and no erasure looks there. Raises Unknown if there is none in
    this bucket, StoreError."""
    erasures = workspace.catalog.erasures
    if not erasures.forget_former_copy(archive, bucket_name):
        names = ", ".join(erasures.former_copies(archive)) or "none"
        raise Unknown(f"Archive {archive.name} has no former copy in the bucket {bucket_name!r}", f"It has {names}")
    kept_settings.write_settings(workspace, folder_of(workspace, archive))


def require_copies(archive: Archive) -> None:
    """Raises OperatorError for an archive without a copy."""
    if not archive.spec.copies:
        raise OperatorError(f"Archive {archive.name} has no copy", "Give it one by its setting copies")
