"""Erasure: messages leave an archive for good, and every object that has them.

Invariant: an erasure is decided whole, then written down in the catalog and beside the chunks, and only then carried
out, by this process or the next one. It ends when a search has found its messages nowhere. A chunk gives way only to
chunks and gaps that have its other messages, read again from the store and proven equal.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC
from uuid import uuid4

from nats3_dagster.archive.keep.cut import Cut, cut, found_cut
from nats3_dagster.archive.keep.erased_search import remove, search
from nats3_dagster.archive.keep.reasons import reason_of
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.source.observe import observe_source
from nats3_dagster.archive.stored import erasure_records, folder
from nats3_dagster.archive.stored.erasure_record import encode_record
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.archive.stored.unchecked import is_unchecked
from nats3_dagster.errors import CatalogError, Conflict, Nats3Error, ObjectMissing, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, Incarnation, SeqRange, without
from nats3_dagster.model.archive_spec import archive_prefix
from nats3_dagster.model.erasure import ErasureRecord, Trace, joined
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# How long a compaction, a repair or another erasure of the archive may run before.
PATIENCE_S = 120.0
# How often chunks and buckets are looked through: a replay, a capture or another program may add what is found then.
ROUNDS = 3
# As `reason_of` says that there is none.
REASON = "An erasure", "Say why these messages must go"
Wanted = Mapping[Incarnation, Sequence[SeqRange]]


@dataclass(frozen=True, slots=True)
class Erased:
    """Messages that were erased, or would be."""

    archive: str
    messages: int = 0
    # Chunks that had them, and their hours, ascending.
    chunks: int = 0
    hours: tuple[str, ...] = ()
    # Objects that were removed from the archive's own bucket; None where nothing was done.
    objects: int | None = None
    # Objects, and versions of them, that have erased messages and are still there.
    left: tuple[Trace, ...] = ()
    # Why the erasure is not finished, or why an hour was not sealed again.
    problem: Nats3Error | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a search for all erased messages of an archive."""

    archive: str
    erasures: int
    messages: int
    # Those that were searched.
    buckets: tuple[str, ...]
    # What has an erased message; empty if nothing does.
    traces: tuple[Trace, ...]


def plan(workspace: Workspace, archive: Archive, wanted: Wanted) -> Erased:
    """The result that an erasure of these sequences would have, by the catalog alone."""
    erasures = workspace.catalog.erasures
    hours = [hour for life, ranges in wanted.items() for hour in erasures.hours_with(archive, life, ranges)]
    messages = sum(part.size for ranges in wanted.values() for part in ranges)
    return Erased(archive.name, messages, len(hours), tuple(sorted(set(hours))))


def erase(workspace: Workspace, archive: Archive, wanted: Wanted, *, reason: str, chosen_by: Sequence[str]) -> Erased:
    """Erase the messages of these sequences, which the archive has, and finish the erasures of the archive that are not
    finished. `reason`: why, for the audit. `chosen_by`: the kinds of conditions that chose them.

    Raises OperatorError without a reason; Held where a hold covers one of the chunks; Conflict for one that a running
    replay has to publish, or while a compaction runs for long: then nothing was done. After that the erasure is
    decided: `problem` has why it is not finished, and the next call, or a sweep, goes on with it."""
    reason = reason_of(reason, *REASON)
    folder.require(workspace, archive)
    try:
        with workspace.catalog.locks.erasing(archive, PATIENCE_S):
            planned = _decide(workspace, archive, wanted, reason, chosen_by)
            done = _carry_out(workspace, archive)
    except Conflict as error:
        asked = {"reason": reason, "by": list(chosen_by)}
        workspace.catalog.history.refused(archive, "erasure_refused", asked, error)
        raise
    hours = tuple(sorted({*planned.hours, *done.hours}))
    return replace(done, messages=planned.messages, chunks=planned.chunks, hours=hours)


def _decide(workspace: Workspace, archive: Archive, wanted: Wanted, reason: str, chosen_by: Sequence[str]) -> Erased:
    """Keep the erasure of what is wanted and was not erased before. Returns its plan. Raises Held, Conflict, and then
    nothing was done. Call it under the lock."""
    wanted = _without_erased(workspace, archive, wanted)
    planned = plan(workspace, archive, wanted)
    if not planned.chunks:
        return Erased(archive.name)
    record = _record(workspace, archive, wanted)
    _, digest = encode_record(record)
    workspace.catalog.erasures.decide(archive, record, digest, reason=reason, chosen_by=chosen_by)
    fault_point("erase.decided")
    return planned


def carry_out(workspace: Workspace, archive: Archive) -> Erased:
    """Go on with the erasures of the archive that are not finished. Raises as `erase` does before it has decided."""
    folder.require(workspace, archive)
    if archive.name not in workspace.catalog.erasures.unfinished_archives():
        return Erased(archive.name, objects=0)
    with workspace.catalog.locks.erasing(archive, PATIENCE_S):
        return _carry_out(workspace, archive)


def carry_out_each(workspace: Workspace, turn: int | None = None) -> tuple[int, Nats3Error | None]:
    """`carry_out` for each archive with an erasure that is not finished: the objects that were removed, and the first
    problem; one archive does not stop the others.

    Each archive's bucket is asked for erasures that an older catalog does not know; with `turn`, which a sensor counts
    up, only that of one archive: a thousand archives are a thousand listings."""
    archives = workspace.catalog.archives.all()
    asked = archives if turn is None or not archives else [archives[turn % len(archives)]]
    for archive in asked:
        try:
            folder.learn(workspace, archive)
        except StoreError as error:
            # Whatever writes to the folder, or verifies it, fails of it.
            log.warning("%s: erasures beside the chunks are unknown: %s", archive.name, error.what)
    removed, problem = 0, None
    unfinished = workspace.catalog.erasures.unfinished_archives()
    for archive in (archive for archive in archives if archive.name in unfinished):
        try:
            done = carry_out(workspace, archive)
            removed, problem = removed + (done.objects or 0), problem or done.problem
        except Nats3Error as error:
            problem = problem or error
    return removed, problem


def prove(workspace: Workspace, archive: Archive) -> Proof:
    """Search every object, version and copy of the archive for a message of any of its erasures. What is found lets the
    erasures count as not finished: the next sweep removes it. Raises StoreError where a bucket cannot be searched,
    Conflict for an archive that was made again and is not confirmed."""
    folder.require(workspace, archive)
    if is_unchecked(workspace, archive):
        raise _unchecked(archive)
    erasures, buckets = workspace.catalog.erasures, erasure_records.places(workspace, archive)
    for bucket in buckets:
        with _named(archive, bucket):
            _agree(workspace, archive, bucket)
    rows, sequences = erasures.all(archive), erasures.sequences(archive)
    traces = list[Trace]()
    for bucket in buckets if rows else ():
        with _named(archive, bucket):
            traces += search(workspace, archive, bucket, sequences)
    if traces:
        erasures.reopen(archive)
    return Proof(archive.name, len(rows), sum(row.messages for row in rows), buckets, tuple(traces))


def _without_erased(workspace: Workspace, archive: Archive, wanted: Wanted) -> Wanted:
    """The wanted sequences, without those that were erased before."""
    known = workspace.catalog.erasures.sequences(archive)
    rest = {life: without(ranges, known.get(life.created_ns, ())) for life, ranges in wanted.items()}
    return {life: ranges for life, ranges in rest.items() if ranges}


def _record(workspace: Workspace, archive: Archive, wanted: Wanted) -> ErasureRecord:
    """The record of a new erasure, which follows the newest one. Call it under the lock."""
    known = workspace.catalog.erasures.all(archive)
    newest = known[-1] if known else None
    return ErasureRecord(
        uuid4(),
        newest.number + 1 if newest else 1,
        newest.digest if newest else None,
        workspace.catalog.now().astimezone(UTC),
        # As the catalog gives them back: the record must be the same then.
        {life.created_ns: joined(ranges) for life, ranges in wanted.items() if ranges},
    )


def _carry_out(workspace: Workspace, archive: Archive) -> Erased:
    """Under the lock. Nothing is removed from a bucket before each record is there."""
    erasures = workspace.catalog.erasures
    if is_unchecked(workspace, archive):
        return Erased(archive.name, objects=0, problem=_unchecked(archive))
    reached, problem = _write_down(workspace, archive)
    fault_point("erase.written")
    open_ones = [row.id for row in erasures.all(archive) if row.is_open]
    if not open_ones:
        return Erased(archive.name, objects=0)
    hours, cut_problem = _cut_all(workspace, archive)
    problem = problem or cut_problem
    seal_problem = _seal(workspace, archive)
    fault_point("erase.sealed")
    removed, left, search_problem = _remove_all(workspace, archive, reached)
    problem = problem or search_problem
    fault_point("erase.gone")
    if left or problem:
        erasures.left_over(archive, len(left))
        problem = problem or StoreError(
            f"{len(left):,} objects of archive {archive.name} still have erased messages. {left[0]}",
            Next.FINISH_ERASURES(archive=archive.name),
        )
    else:
        erasures.finish(archive, open_ones)
    return Erased(archive.name, 0, 0, tuple(sorted(hours)), removed, tuple(left), problem or seal_problem)


def _write_down(workspace: Workspace, archive: Archive) -> tuple[list[str], Nats3Error | None]:
    """Let every bucket have each record: the buckets that were reached, and why another one was not. Raises StoreError
    for the archive's own."""
    erasures, reached, known = workspace.catalog.erasures, list[str](), -1
    problem: Nats3Error | None = None
    # One bucket may have a record that the others do not.
    while known != (known := len(erasures.all(archive))):
        erasure_records.agree(workspace, archive)
        reached = [archive.spec.bucket]
        for bucket in erasure_records.places(workspace, archive)[1:]:
            try:
                with _named(archive, bucket):
                    _agree(workspace, archive, bucket)
                reached.append(bucket)
            except Nats3Error as error:
                problem = problem or _unless_catalog(error)
    return reached, problem


def _agree(workspace: Workspace, archive: Archive, bucket: str) -> None:
    """Let a bucket and the catalog have the same records. Raises StoreError where the folder there is another
    catalog's: neither tells the other what to erase."""
    spec = archive.spec
    folder.check_removable(workspace, bucket, [f"{archive_prefix(spec.prefix, spec.name)}/"])
    erasure_records.agree(workspace, archive, bucket)


def _unchecked(archive: Archive) -> Conflict:
    return Conflict(
        f"Archive {archive.name} was made again from its bucket: erasures wait until its settings are confirmed",
        Next.CHECK_REBUILT(archive=archive.name, hold=REBUILT),
    )


def _cut_all(workspace: Workspace, archive: Archive) -> tuple[set[str], Nats3Error | None]:
    """Take the messages of open erasures out of all chunks. The hours of those that changed, and the first error: one
    chunk does not stop the others."""
    hours: set[str] = set()
    problem: Nats3Error | None = None
    tried: set[int] = set()
    while chunks := [one for one in workspace.catalog.erasures.to_cut(archive) if one not in tried]:
        for chunk_id in chunks:
            tried.add(chunk_id)
            if chunk := workspace.catalog.chunks.find(chunk_id):
                try:
                    _cut(workspace, archive, chunk)
                    hours.add(chunk.meta.hour)
                except Nats3Error as error:
                    problem = problem or _unless_catalog(error)
    return hours, problem


def _cut(workspace: Workspace, archive: Archive, chunk: Chunk) -> None:
    """Put chunks without erased messages in the place of one. Raises Nats3Error."""
    begun, erasures = workspace.catalog.now(), workspace.catalog.erasures
    ranges = erasures.of(archive, chunk.meta.incarnation, chunk.meta.covers)
    rest: Cut | None
    is_new = True
    try:
        rest = cut(workspace, archive, chunk, ranges)
    except ObjectMissing:
        rest, is_new = found_cut(workspace, archive, chunk, ranges), False
        if rest is None:
            raise
    try:
        erasures.swap(archive, chunk, rest.metas, rest.gaps, begun=begun)
    except Nats3Error as error:
        _unless_catalog(error)  # nothing says whether they were committed
        for meta in rest.metas if is_new else ():
            remove_objects(workspace, meta.bucket, [meta.key])
        raise
    fault_point("erase.swapped")


def _seal(workspace: Workspace, archive: Archive) -> Nats3Error | None:
    """Seal the hours again that were sealed before, also those that a process which died has changed; the error where
    that does not succeed: the seal sensor does it."""
    hours = workspace.catalog.erasures.hours(archive)
    changed = [seal.hour for seal in workspace.catalog.seals.select(archive, hours=hours) if not seal.valid]
    try:
        list(seal_hours(workspace, archive, changed))
    except Nats3Error as error:
        return error
    return None


def _remove_all(
    workspace: Workspace, archive: Archive, buckets: Sequence[str]
) -> tuple[int, list[Trace], Nats3Error | None]:
    """Remove every object that has a message of an open erasure, until a search finds none: how many went from the
    archive's own bucket, which stay, and why a bucket could not be searched."""
    removed, left, problem = 0, list[Trace](), None
    for bucket in buckets:
        try:
            with _named(archive, bucket):
                count, stay = _remove_from(workspace, archive, bucket)
            removed, left = removed + count, [*left, *stay]
        except Nats3Error as error:
            problem = problem or _unless_catalog(error)
    return removed, left, problem


def _remove_from(workspace: Workspace, archive: Archive, bucket: str) -> tuple[int, list[Trace]]:
    """The same for one bucket. Raises Nats3Error."""
    sequences = workspace.catalog.erasures.sequences(archive, is_open=True)
    removed, stay = 0, dict[tuple[str, str], Trace]()
    for _ in range(ROUNDS):
        traces = {(one.key, one.version): one for one in search(workspace, archive, bucket, sequences)}
        if traces.keys() <= stay.keys():
            return removed, [stay[place] for place in traces]
        count, kept = remove(workspace, archive, [*traces.values()])
        removed, stay = removed + count, {(one.key, one.version): one for one in kept}
    return removed, [*search(workspace, archive, bucket, sequences)]


@contextmanager
def _named(archive: Archive, bucket: str) -> Generator[None]:
    """Says of an error whose bucket it is, where that is not one of the archive's settings."""
    try:
        yield
    except StoreError as error:
        if bucket in archive.spec.buckets:
            raise
        raise type(error)(
            f"The bucket {bucket!r}, a former copy of archive {archive.name}, cannot be searched for erased messages: "
            f"{error.what}",
            Next.FORGET_COPY(archive=archive.name, bucket=bucket),
        ) from error


def _unless_catalog(error: Nats3Error) -> Nats3Error:
    """The error; raised if the catalog does not answer, because then nothing else can be done."""
    if isinstance(error, CatalogError) and not isinstance(error, Conflict):
        raise error
    return error


def stream_may_have(workspace: Workspace, archive: Archive, wanted: Wanted) -> bool | None:
    """True if the stream may still have some of the sequences; None if it cannot be asked. Writes nothing."""
    try:
        state = observe_source(workspace, archive).state
    except Nats3Error:
        return None
    return any(part.last >= state.first_seq for part in wanted.get(state.incarnation, ()))


def exports_of(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> list[str]:
    """The exports of the archive that have files of one of these hours."""
    return workspace.catalog.erasures.exports_of(archive, hours)


def other_archives(workspace: Workspace, archive: Archive, wanted: Wanted) -> list[str]:
    """The names of other archives that may have these messages: of the same stream, and of its life then."""
    return workspace.catalog.erasures.other_archives(archive, [life.created_ns for life in wanted])
