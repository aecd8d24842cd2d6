"""Erasure: messages leave an archive for good, and every object that has them.

Invariant: a chunk gives way only to chunks and gaps that have its other messages, read again from the store and proven
equal. What was erased is absent for the reason `erased`, which nothing fills again. Objects go at once, with their
versions and their copies; a process that dies leaves a list of those that are still there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nats3_dagster.archive.captures.accept import accept_source
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.keep.cut import cut
from nats3_dagster.archive.keep.erased_objects import finish
from nats3_dagster.archive.keep.reasons import reason_of
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.unlisted import missing_of
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.errors import (
    CatalogError,
    ChunkError,
    Conflict,
    Nats3Error,
    ObjectMissing,
    StoreError,
)
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, DeadObject, Incarnation, SeqRange, clipped
from nats3_dagster.model.stream import without
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# How often the archive is looked through: a chunk may be compacted or repaired while another one is rewritten.
ROUNDS = 5
Wanted = Mapping[Incarnation, Sequence[SeqRange]]


@dataclass(frozen=True, slots=True)
class Erased:
    """Messages that were erased, or would be."""

    archive: str
    messages: int = 0
    # Chunks that had them, and their hours, ascending.
    chunks: int = 0
    hours: tuple[str, ...] = ()
    # Objects that were removed, in the archive's own bucket.
    objects: int = 0
    # Objects that have erased messages and are still there.
    left: tuple[DeadObject, ...] = ()
    # Why they are, or why an hour was not sealed again.
    problem: Nats3Error | None = field(default=None, compare=False)


def plan(workspace: Workspace, archive: Archive, wanted: Wanted) -> Erased:
    """The result that an erasure of these sequences would have, by the catalog alone."""
    found = list(_chunks(workspace, archive, wanted))
    return Erased(
        archive.name,
        sum(seqs.size for ranges in wanted.values() for seqs in ranges),
        len(found),
        tuple(sorted({chunk.meta.hour for chunk, _ in found})),
    )


def erase(workspace: Workspace, archive: Archive, wanted: Wanted, *, reason: str, chosen_by: Sequence[str]) -> Erased:
    """As `_erase_wanted`; what a hold or a running replay refuses is in the history too, with who asked for it."""
    try:
        return _erase_wanted(workspace, archive, wanted, reason=reason, chosen_by=chosen_by)
    except Conflict as error:
        asked = {"reason": reason.strip(), "by": list(chosen_by)}
        workspace.catalog.history.refused(archive, "erasure_refused", asked, error)
        raise


def _erase_wanted(
    workspace: Workspace, archive: Archive, wanted: Wanted, *, reason: str, chosen_by: Sequence[str]
) -> Erased:
    """Erase the messages of these sequences. `reason`: why, for the audit. `chosen_by`: the kinds of conditions that
    chose them. Seals their hours again, and removes every object that has them.

    Raises OperatorError without a reason; Held where a hold covers a chunk; Conflict for a chunk that a running replay
    has to publish, and for an archive that changes all the time; ChunkError where an object is not as it was written;
    StoreError. What was done before stays done, and the same call does the rest."""
    reason = reason_of(reason, "An erasure", "Say why these messages must go")
    folder.require(workspace, archive)
    erasure = workspace.catalog.erasures.begin(archive, reason, chosen_by)
    done = Erased(archive.name)
    hours: set[str] = set()
    try:
        for _ in range(ROUNDS):
            changed = False
            for chunk, ranges in _chunks(workspace, archive, wanted):
                messages = _erase(workspace, archive, erasure, chunk, ranges)
                if messages is None:
                    changed = True
                elif messages:
                    hours.add(chunk.meta.hour)
                    done = replace(done, messages=done.messages + messages, chunks=done.chunks + 1)
            if not changed:
                break
        else:
            raise Conflict(f"Archive {archive.name} changed while messages were erased", "Erase them again")
        unlisted = _unlisted(workspace, archive, erasure, wanted)
    finally:
        problem = _seal(workspace, archive, hours)
        fault_point("erase.sealed")
        removed = finish(workspace, archive)
    done = replace(done, hours=tuple(sorted(hours)))
    left = (*removed.left, *unlisted)
    if unlisted:
        problem = StoreError(
            f"{unlisted[0].key} may have erased messages: no chunk lists it, and it has others that the archive misses "
            "or cannot be read",
            Next.ADOPT(archive=archive.name),
        )
    return replace(done, objects=removed.objects, left=left, problem=removed.problem or problem)


def _chunks(workspace: Workspace, archive: Archive, wanted: Wanted) -> Iterator[tuple[Chunk, list[SeqRange]]]:
    """The live chunks that may have the sequences, each with those that it may have. The catalog is asked once for each
    such chunk, however many others lie between them."""
    for incarnation, ranges in wanted.items():
        lasts = [part.last for part in ranges]
        after, at = 0, 0
        while at < len(ranges):
            part = SeqRange(max(ranges[at].first, after + 1), ranges[at].last)
            found = workspace.catalog.chunks.select(
                archive, incarnation=incarnation, seqs=part, with_deleted=True, limit=1
            )
            after = found[0].meta.covers.last if found else part.last
            for chunk in found:
                begin = bisect_left(lasts, chunk.meta.covers.first)
                own = clipped(ranges[begin : bisect_right(lasts, after) + 1], chunk.meta.covers)
                # What a chunk says is absent needs no look at its object.
                if chunk.meta.deleted is None or without(own, chunk.meta.deleted):
                    yield chunk, own
            at = bisect_right(lasts, after)


def _erase(
    workspace: Workspace, archive: Archive, erasure: int, chunk: Chunk, ranges: Sequence[SeqRange]
) -> int | None:
    """Put chunks without these sequences in the place of one; the messages that it had of them. None if the chunk gave
    way to others meanwhile."""
    begun, find = workspace.catalog.now(), workspace.catalog.chunks.find
    if find(chunk.id) is None:
        return None
    try:
        rest = cut(workspace, archive, chunk, ranges)
    except ObjectMissing:
        if find(chunk.id) is None:
            return None  # another erasure was faster, and removes objects at once
        raise
    if rest is None:
        return 0
    try:
        workspace.catalog.erasures.swap(archive, erasure, chunk, rest.erased, rest.metas, rest.gaps, begun=begun)
    except Nats3Error as error:
        if isinstance(error, CatalogError) and not isinstance(error, Conflict):
            raise  # nothing says whether they were committed
        for meta in rest.metas:
            remove_objects(workspace, meta.bucket, [meta.key])
        if find(chunk.id) is None:
            return None
        raise
    fault_point("erase.swapped")
    return sum(part.size for part in rest.erased)


def _unlisted(workspace: Workspace, archive: Archive, erasure: int, wanted: Wanted) -> tuple[DeadObject, ...]:
    """Have the objects removed too that no chunk lists and that may have the sequences: killed captures and compactions
    left them. Returns those that stay: they cannot be read, or have messages that the archive misses."""
    bucket = workspace.bucket(archive.spec.bucket)
    stay: list[DeadObject] = []
    for incarnation, ranges in wanted.items():
        for key in Orphans(workspace, archive).keys(incarnation, ranges) if ranges else ():
            one = DeadObject(bucket.name, key)
            try:
                reader = open_chunk(bucket.get(key))
                # By its key it may. It may also be another erasure's, which has left them out.
                if not _has_any(reader, ranges):
                    continue
                missing = missing_of(workspace, archive, reader)
            except ObjectMissing:
                continue
            except ChunkError:
                missing = 1
            if missing:
                stay.append(one)
            else:
                workspace.catalog.erasures.add_object(erasure, one)
    return tuple(stay)


def _has_any(reader: ChunkReader, ranges: Sequence[SeqRange]) -> bool:
    """True if an object has a message of one of the sequences. Raises ChunkError."""
    for batch in reader.batches(["seq"], seqs=SeqRange(ranges[0].first, ranges[-1].last)):
        seqs = batch.column("seq").to_numpy()
        if any(np.searchsorted(seqs, part.first) < np.searchsorted(seqs, part.last, side="right") for part in ranges):
            return True
    return False


def _seal(workspace: Workspace, archive: Archive, hours: set[str]) -> Nats3Error | None:
    """Seal the hours again that were sealed before; the error where that does not succeed: the seal sensor does it."""
    sealed = [seal.hour for seal in workspace.catalog.seals.select(archive, hours=sorted(hours))] if hours else []
    try:
        list(seal_hours(workspace, archive, sealed))
    except Nats3Error as error:
        return error
    return None


def stream_may_have(workspace: Workspace, archive: Archive, wanted: Wanted) -> bool | None:
    """True if the stream may still have some of the sequences; None if it cannot be asked."""
    try:
        state = accept_source(workspace, archive)
    except Nats3Error:
        return None
    return any(part.last >= state.first_seq for part in wanted.get(state.incarnation, ()))


def exports_of(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> list[str]:
    """The exports of the archive that have files of one of these hours."""
    return workspace.catalog.erasures.exports_of(archive, hours)
