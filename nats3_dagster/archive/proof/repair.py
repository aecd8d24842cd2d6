"""Repair: put good objects in the place of bad ones, from a copy or from what the stream still has.

Invariant: nothing is deleted before its replacement is committed. A chunk is read again and compared with what it had;
its new objects are put; one transaction takes them in and the bad chunk out; the bad object goes last. A process that
dies in between leaves a chunk that is still known as bad, or an object that no chunk has.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from nats3_dagster.archive.captures.adopt import messages_of, settle_absences
from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.archive.proof.verify import Verified
from nats3_dagster.archive.source.observe import checked_source
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.any_bucket import from_copies
from nats3_dagster.archive.stored.erased import may_have_erased
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks import open_chunk
from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.errors import ChunkError, Conflict, ObjectMissing, OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.streams import confirm_origin
from nats3_dagster.model import NOT_MISSING, REMOVED, Archive, Chunk, ChunkMeta, Gap, StreamState, clipped
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.model.stream import without
from nats3_dagster.objects import Bucket
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# How long an erasure may run meanwhile.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Repair:
    """The possible repair of bad chunks."""

    # The stream is asked what it has of these.
    bad: tuple[Chunk, ...]
    # These cannot be read though their objects are what was written, by a newer release for instance: left alone.
    as_written: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair of a bad chunk."""

    chunk: Chunk
    # Messages that the stream still has of it, or an object that no chunk lists.
    messages: int
    # Whether the archive has these now, in good objects. If not, nothing was changed.
    done: bool
    # What another process did with the chunk meanwhile.
    conflict: Conflict | None = None

    @property
    def lost(self) -> int:
        """Messages of the chunk that neither the stream nor an unlisted object has."""
        return self.chunk.meta.messages - self.messages


@dataclass(slots=True)
class _Objects:
    """Takes the objects of a capture, instead of a bucket: by key, 64 MiB of payload or little more together."""

    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool:
        self.objects[key] = bytes(data)
        return True


def plan_repair(workspace: Workspace, archive: Archive, bad: Sequence[Verified], *, every: int | None = None) -> Repair:
    """Returns the possible repair of chunks that could not be verified. `every`: how many chunks the archive has, where
    all of them were verified.

    Raises StoreError; OperatorError when none of all objects is there, and no copy may have them: that is another
    store."""
    missing = sum(isinstance(verified.error, ObjectMissing) for verified in bad)
    if every is not None and missing == every > 1 and not archive.spec.copies:
        place = workspace.settings.store.of(archive.spec.bucket).place
        raise OperatorError(
            f"None of the {missing} objects of archive {archive.name} is in {place}",
            Next.NAME_HOURS_TO_REPAIR(archive=archive.name),
        )
    chunks = [verified.chunk for verified in bad]
    as_written = tuple(c for c in chunks if _is_as_written(workspace, c.meta))
    return Repair(tuple(c for c in chunks if c not in as_written), as_written)


def repair_all(
    workspace: Workspace, archive: Archive, planned: Repair, *, accept_loss: bool = False
) -> Iterator[Repaired]:
    """Repairs each chunk from a copy, and the others as `repair` does. The stream is asked for those only. Raises
    Nats3Error as the two do, and SourceError."""
    done: set[int] = set()
    with workspace.catalog.locks.rewriting(archive, PATIENCE_S):
        for repaired in repair_from_copies(workspace, archive, planned):
            done.add(repaired.chunk.id)
            yield repaired
        if rest := tuple(chunk for chunk in planned.bad if chunk.id not in done):
            state = checked_source(workspace, archive).state
            yield from repair(workspace, archive, state, replace(planned, bad=rest), accept_loss=accept_loss)


def repair_from_copies(workspace: Workspace, archive: Archive, planned: Repair) -> Iterator[Repaired]:
    """Puts the object of each chunk back that a copy has as it was written; a chunk that no copy has is left out. The
    stream is not asked. Raises Nats3Error, but goes on after a Conflict; StoreError, and nothing was written, where the
    archive does not own its folder."""
    owned = False
    for chunk in planned.bad:
        meta = chunk.meta
        if may_have_erased(workspace, archive, meta):
            yield Repaired(chunk, 0, False, _of_erasure(archive, chunk))
            continue
        data = from_copies(chunk, workspace.bucket, partial(_as_written, meta=meta))
        if data is None:
            continue
        if not owned:
            folder.require(workspace, archive)
            owned = True
        repaired = Repaired(chunk, meta.messages, done=True)
        try:
            _put_back(workspace, chunk, data)
        except Conflict as conflict:
            repaired = replace(repaired, done=False, conflict=conflict)
        yield repaired


def repair(
    workspace: Workspace, archive: Archive, state: StreamState, planned: Repair, *, accept_loss: bool = False
) -> Iterator[Repaired]:
    """Repairs each chunk if the stream, or objects that no chunk lists, still have every message of it; with
    `accept_loss` also the others, whose lost messages are then gaps. Raises Nats3Error, but goes on after a Conflict;
    StoreError, and nothing was written, where the archive does not own its folder."""
    if planned.bad:
        folder.require(workspace, archive)
    for chunk in planned.bad:
        if _is_as_written(workspace, chunk.meta):
            by_other = Conflict(f"Chunk {chunk.id} was repaired by another process", "Nothing was changed by this one")
            yield Repaired(chunk, chunk.meta.messages, False, by_other)
            continue
        if may_have_erased(workspace, archive, chunk.meta):
            yield Repaired(chunk, 0, False, _of_erasure(archive, chunk))
            continue
        captured, outcomes = _capture(workspace, archive, state, chunk)
        metas = [outcome for outcome in outcomes if isinstance(outcome, ChunkMeta)]
        repaired = Repaired(chunk, sum(meta.messages for meta in metas), done=False)
        orphans = Orphans(workspace, archive) if repaired.lost else None
        if orphans:
            unlisted = _unlisted_messages(archive, chunk.meta, metas, captured.objects, orphans)
            repaired = replace(repaired, messages=repaired.messages + unlisted)
        if repaired.lost and not accept_loss:
            yield repaired
            continue
        if repaired.lost and _has_more_absences(metas, chunk.meta):
            captured, outcomes = _capture(workspace, archive, state, chunk, given_up=True)
            metas = [outcome for outcome in outcomes if isinstance(outcome, ChunkMeta)]
        gaps = [_as_lost(outcome) for outcome in outcomes if isinstance(outcome, Gap)]
        try:
            _put_in_place(workspace, archive, chunk, metas, gaps, captured.objects, orphans)
        except Conflict as conflict:
            yield replace(repaired, conflict=conflict)
        else:
            yield replace(repaired, done=True)


def _capture(
    workspace: Workspace, archive: Archive, state: StreamState, chunk: Chunk, *, given_up: bool = False
) -> tuple[_Objects, list[ChunkMeta | Gap]]:
    """Returns the result of a capture of the chunk's sequences now, with its objects, which are not put yet.
    `given_up`: true if messages that the stream no longer has are lost, and not deleted on purpose."""
    meta, settings, captured = chunk.meta, workspace.settings, _Objects()
    # Gone with its stream, or removed from a work queue as acknowledged.
    if meta.incarnation != state.incarnation or state.config.get("retention") == "workqueue":
        return captured, [Gap(meta.incarnation, (meta.covers,), "missing")]
    # The subjects that the chunk was captured by may have changed since it was verified.
    archive = workspace.catalog.archives.reread(archive)
    # Beside the chunk, wherever later ones go: the same bytes then have the same key.
    prefix = meta.key.rpartition("archive=")[0].rstrip("/")
    spec = replace(archive.spec, bucket=meta.bucket, prefix=prefix)
    removing = workspace.catalog.coverage.removing_settings(state.incarnation)
    job = CaptureJob(
        spec,
        state,
        ((meta.hour, meta.covers.first),),
        settings.nats,
        settings.store,
        removing=removing,
        former_filters=archive.former_filters,
        given_up=given_up,
    )
    # What was erased stays erased, though the stream may still have it.
    removed = (meta.deleted or ()) if meta.absent_reason in REMOVED else ()
    outcomes = [
        outcome
        for window in without([meta.covers], removed)
        for outcome in RangeCapture(job, window, workspace.link, captured).outcomes()
    ]
    confirm_origin(workspace.link, state.incarnation)
    if removed and meta.absent_reason:
        outcomes.append(Gap(meta.incarnation, removed, meta.absent_reason))
    return captured, outcomes


def _put_in_place(
    workspace: Workspace,
    archive: Archive,
    chunk: Chunk,
    metas: Sequence[ChunkMeta],
    gaps: Sequence[Gap],
    objects: dict[str, bytes],
    orphans: Orphans | None,
) -> None:
    """`orphans`: what fills sequences that the new chunks do not have."""
    old, chunks = chunk.meta, workspace.catalog.chunks
    bucket, begun = workspace.bucket(old.bucket), workspace.catalog.now()
    if old.sha256 in {meta.sha256 for meta in metas}:
        _put_back(workspace, chunk, objects[old.key])
        return
    put = [meta.key for meta in metas if bucket.put_new(meta.key, objects[meta.key], meta.sha256)]
    if orphans:
        metas, gaps = settle_absences(orphans, metas, gaps)
    try:
        chunks.replace(archive, [chunk.id], metas, gaps, begun=begun)
    except Conflict:
        remove_objects(workspace, old.bucket, put)
        raise
    remove_objects(workspace, old.bucket, [old.key])


def _put_back(workspace: Workspace, chunk: Chunk, data: bytes | memoryview) -> None:
    """The same bytes under the same key: the catalog has nothing to change. Raises Conflict for a chunk that was taken
    out meanwhile."""
    meta = chunk.meta
    workspace.bucket(meta.bucket).put_again(meta.key, data, meta.sha256)
    fault_point("repair.put_back")
    if workspace.catalog.chunks.find(chunk.id) is None:
        remove_objects(workspace, meta.bucket, [meta.key])
        raise _removed_meanwhile(chunk)


def _unlisted_messages(
    archive: Archive, old: ChunkMeta, metas: Sequence[ChunkMeta], objects: dict[str, bytes], orphans: Orphans
) -> int:
    """Returns the number of messages of the old chunk's sequences that are in unlisted objects and not in the new
    chunks."""
    held: Int64s = np.array([], np.int64)
    for meta in metas:
        reader = open_chunk(objects[meta.key], meta)
        held = np.concatenate([held, *(batch.column("seq").to_numpy() for batch in reader.batches(["seq"]))])
    before = len(held)
    for orphan in orphans.overlapping(old.incarnation, [old.covers]):
        seqs = [batch.column("seq").to_numpy() for batch in messages_of(archive, orphan.reader, old.covers)]
        held = np.union1d(held, np.concatenate([np.array([], np.int64), *seqs]))
    return len(held) - before


def _removed_meanwhile(chunk: Chunk) -> Conflict:
    return Conflict(f"Chunk {chunk.id} was repaired or retired by another process", "See which chunks are bad now")


def _of_erasure(archive: Archive, chunk: Chunk) -> Conflict:
    return Conflict(
        f"Chunk {chunk.id} has messages that were erased, and the erasure is not finished",
        Next.FINISH_ERASURES(archive=archive.name),
    )


def _has_more_absences(metas: Sequence[ChunkMeta], old: ChunkMeta) -> bool:
    """True if sequences between messages are absent now that the old chunk may have had. Under a filter the catalog
    does not say which it had."""
    known = old.deleted or ()
    return any(meta.absent > sum(part.size for part in clipped(known, meta.covers)) for meta in metas)


def _as_lost(gap: Gap) -> Gap:
    """Returns the gap of a repair: its messages were captured once, so they did not leave the archive on purpose."""
    return replace(gap, reason="missing") if gap.reason in NOT_MISSING else gap


def _is_as_written(workspace: Workspace, meta: ChunkMeta) -> bool:
    """True if the object is as it was written. It asks the store once more: one bad answer is too little to replace an
    object."""
    try:
        _as_written(workspace.bucket(meta.bucket), meta)
    except (ObjectMissing, ChunkError):
        return False
    return True


def _as_written(bucket: Bucket, meta: ChunkMeta) -> memoryview:
    """The object's bytes. Raises StoreError, ObjectMissing, and ChunkError if they are not those that were written."""
    data = bucket.get(meta.key)
    if hashlib.sha256(data).hexdigest() != meta.sha256:
        raise ChunkError(f"{meta.key} in the bucket {bucket.name!r} is not as it was written", DAMAGED)
    return data
