"""Erased objects: objects with erased messages are removed from the archive's bucket and from its copies, with all
versions.

Invariant: an object is on the list until it is gone everywhere. The next call goes on with the list.
"""

from dataclasses import dataclass, field

from nats3_dagster.archive.stored import copies
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.errors import Nats3Error, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, DeadObject
from nats3_dagster.objects import delete_versions
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RemovedErased:
    """The objects of the list that were removed, and those that stay."""

    # Objects that were removed from the archive's own bucket.
    objects: int
    # Objects that are still there, in a bucket or as a version.
    left: tuple[DeadObject, ...] = ()
    # Why they are.
    problem: Nats3Error | None = field(default=None, compare=False)


def finish(workspace: Workspace, archive: Archive) -> RemovedErased:
    """Remove the objects of all erasures of the archive that are still there. Raises CatalogError; `problem` has what
    else went wrong, and the next call does the rest."""
    erasures = workspace.catalog.erasures
    listed, by_key = erasures.objects(archive), workspace.catalog.chunks.by_key
    # An archive of this name that was made again may have one again: such an object is not to go.
    live = [one for one in listed if by_key(one.bucket, one.key)]
    objects = [one for one in listed if one not in live]
    removed, gone, problem = 0, list[DeadObject](), None
    for one in objects:
        try:
            removed += remove_objects(workspace, one.bucket, [one.key])
            fault_point("erase.removed")
            _check_gone(workspace, one.bucket, one.key)
        except StoreError as error:
            problem = problem or error
        else:
            gone.append(one)
    if gone and archive.spec.copies:
        try:
            copies.copy(workspace, archive)
            for one in gone:
                for name in archive.spec.copies:
                    _check_gone(workspace, name, one.key)
        except Nats3Error as error:
            problem, gone = problem or error, []
    erasures.gone([*gone, *live])
    fault_point("erase.gone")
    erasures.finish(archive)
    left = tuple(one for one in objects if one not in {*gone})
    return RemovedErased(removed, left, problem)


def finish_each(workspace: Workspace) -> int:
    """`finish` for each archive with an erasure that is not finished; the objects that were removed. Raises the first
    problem at the end."""
    removed, problem = 0, None
    for name in workspace.catalog.erasures.unfinished_archives():
        done = finish(workspace, workspace.catalog.archives.get(name))
        removed, problem = removed + done.objects, problem or done.problem
    if problem:
        raise problem
    return removed


def _check_gone(workspace: Workspace, bucket: str, key: str) -> None:
    """Delete all versions of an object that was removed. Raises StoreError if it, or a version of it, stays."""
    delete_versions(workspace.settings.store, bucket, key)
    if workspace.bucket(bucket).exists(key):
        raise StoreError(f"{key} in the bucket {bucket!r} has erased messages and stays", "Then erase again")
