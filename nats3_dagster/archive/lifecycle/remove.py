"""Deleting an archive, and its objects where these are to be purged.

Invariant: the catalog lets go first, then the objects go.
"""

from dataclasses import dataclass

from nats3_dagster.archive import status
from nats3_dagster.archive.source.buffers import drop_buffer
from nats3_dagster.archive.source.durables import drop
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import OnProgress, no_progress, remove_dead
from nats3_dagster.errors import Conflict, OperatorError, SourceError
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.jetstream.take.durable import find_durable
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Deleted:
    """The objects and rows that were deleted with an archive."""

    # Chunks that were live.
    chunks: int
    # Objects removed from the store.
    objects: int
    # The durable that was deleted in the stream; None where the archive had none of its own, or it was kept.
    consumer: str | None = None
    # The buffer that was deleted; None where the archive had none, or it was kept.
    buffer: str | None = None


@dataclass(frozen=True, slots=True)
class ToDelete:
    """The objects and rows that a name has."""

    # The archive's; None where it was deleted before.
    holdings: status.Holdings | None
    # Objects of deleted archives of this name that are still in the store, owner objects among them.
    left: int


def to_delete(workspace: Workspace, name: str, *, purge: bool = False) -> ToDelete:
    """Returns the plan of `delete`. Raises OperatorError when there is no such archive, and with `purge` no object left
    of a deleted one."""
    try:
        held = status.holdings(workspace, name)
    except OperatorError:
        objects = left(workspace, name) if purge else 0
        if not objects:
            raise
        return ToDelete(None, objects)
    return ToDelete(held, left(workspace, held.archive.name) if purge else 0)


def left(workspace: Workspace, name: str) -> int:
    """Returns the number of objects of deleted archives of this name, and of retired chunks, that are still in the
    store."""
    catalog = workspace.catalog
    dead = sum(1 for _ in catalog.removals.dead_objects(name))
    in_copies = [lag for archive in catalog.archives.deleted(name) for lag in catalog.copies.lags(archive).values()]
    return dead + sum(lag.removals for lag in in_copies) + len(folder.obsolete(workspace, name))


def delete(
    workspace: Workspace,
    name: str,
    *,
    purge: bool = False,
    keep_consumer: bool = False,
    on_progress: OnProgress = no_progress,
) -> Deleted:
    """Take the archive out of the catalog, and delete the durable or the buffer that it made unless
    `keep_consumer`; with `purge` remove its objects too, and those that a purge before left. Raises OperatorError
    when there is nothing to delete; StoreError: then the next call with `purge` removes the rest; what `check`
    raises, and Conflict if an erasure cannot be finished, and then nothing was done. SourceError when NATS does
    not delete the durable: the archive is gone then, and the durable is not."""
    held = to_delete(workspace, name, purge=purge).holdings
    spec = held.archive.spec if held else None
    if held:
        _finish_erasures(workspace, held.archive)
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
    buffer = spec.buffer if spec and not keep_consumer and _drop_buffer(workspace, spec) else None
    return Deleted(chunks, objects, consumer, buffer)


def _finish_erasures(workspace: Workspace, archive: Archive) -> None:
    """Raises Conflict if an erasure of the archive cannot be finished now: without the archive nothing would."""
    if archive.name not in workspace.catalog.erasures.unfinished_archives():
        return
    # It imports pyarrow, 0.2 s, and is rare.
    from nats3_dagster.archive.keep import erasure

    if problem := erasure.carry_out(workspace, archive).problem:
        raise Conflict(
            f"Archive {archive.name} was not deleted: messages of it were erased, and are still in the store. "
            f"{problem.what}",
            problem.hint,
        ) from problem


def check(workspace: Workspace, spec: ArchiveSpec) -> None:
    """Raises OperatorError where NATS is not set, SourceError where it does not answer, if the archive has a durable
    or a buffer to be deleted with it: without the archive nothing would say that it is to go."""
    if not spec.owns_durable and not spec.buffer:
        return
    what = f"buffer {spec.buffer}" if spec.buffer else f"consumer {spec.durable}"
    try:
        if spec.buffer:
            find_stream(workspace.link, spec.buffer)
        else:
            find_durable(workspace.link, spec.stream, spec.own_durable)
    except (OperatorError, SourceError) as error:
        raise type(error)(
            f"Archive {spec.name} was not deleted: its {what} of stream {spec.stream} is to go with it, or to be kept. "
            f"{error.what}",
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


def _drop_buffer(workspace: Workspace, spec: ArchiveSpec) -> bool:
    try:
        return drop_buffer(workspace, spec)
    except SourceError as error:
        raise SourceError(
            f"Archive {spec.name} is deleted, and its buffer {spec.buffer} is not: {error.what}",
            "Delete this stream: it goes on mirroring",
        ) from error
