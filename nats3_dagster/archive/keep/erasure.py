"""Erasure: messages leave an archive for good, and every object that has them.

Invariant: an erasure is decided whole, then written down in the catalog and beside the chunks, and only then carried
out, by this process or the next one. It ends when a search has found its messages nowhere. A chunk gives way only to
chunks and gaps that have its other messages, read again from the store and proven equal.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from uuid import uuid4

from nats3_dagster.archive.keep.erased_search import search, step_of
from nats3_dagster.archive.keep.erasure_work import Erased, agree, carry_out_open, named, unchecked_error
from nats3_dagster.archive.keep.reasons import reason_of
from nats3_dagster.archive.source.observe import observe_source
from nats3_dagster.archive.stored import erasure_records, folder
from nats3_dagster.archive.stored.erasure_record import encode_record
from nats3_dagster.archive.stored.unchecked import is_unchecked
from nats3_dagster.errors import Conflict, Nats3Error, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Incarnation, SeqRange, without
from nats3_dagster.model.erasure import ErasureRecord, Trace, joined
from nats3_dagster.steps import Step
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# How long a compaction, a repair or another erasure of the archive may run before.
PATIENCE_S = 120.0
# As `reason_of` says that there is none.
REASON = "An erasure", "Say why these messages must go"
Wanted = Mapping[Incarnation, Sequence[SeqRange]]


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
    # What to do about them.
    step: Step


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
            done = carry_out_open(workspace, archive)
    except Conflict as error:
        asked = {"reason": reason, "by": list(chosen_by)}
        workspace.catalog.history.refused(archive, "erasure_refused", asked, error)
        raise
    hours = tuple(sorted({*planned.hours, *done.hours}))
    return replace(done, messages=planned.messages, chunks=planned.chunks, hours=hours)


def _decide(workspace: Workspace, archive: Archive, wanted: Wanted, reason: str, chosen_by: Sequence[str]) -> Erased:
    """Record the erasure of what is wanted and was not erased before. Returns its plan. Raises Held, Conflict, and then
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
        return carry_out_open(workspace, archive)


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
        raise unchecked_error(archive)
    erasures, buckets = workspace.catalog.erasures, erasure_records.places(workspace, archive)
    for bucket in buckets:
        with named(archive, bucket):
            agree(workspace, archive, bucket)
    rows, sequences = erasures.all(archive), erasures.sequences(archive)
    traces = list[Trace]()
    for bucket in buckets if rows else ():
        with named(archive, bucket):
            traces += search(workspace, archive, bucket, sequences)
    if traces:
        erasures.reopen(archive)
    step = step_of(archive, traces)
    return Proof(archive.name, len(rows), sum(row.messages for row in rows), buckets, tuple(traces), step)


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


def stream_may_have(workspace: Workspace, archive: Archive, wanted: Wanted) -> bool | None:
    """True if the stream may still have some of the sequences; None if it cannot be asked. Writes nothing."""
    try:
        state = observe_source(workspace, archive).state
    except Nats3Error:
        return None
    first = min(state.first_seq, state.own.first_seq)
    return any(part.last >= first for part in wanted.get(state.incarnation, ()))


def exports_of(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> list[str]:
    """The exports of the archive that have files of one of these hours."""
    return workspace.catalog.erasures.exports_of(archive, hours)


def other_archives(workspace: Workspace, archive: Archive, wanted: Wanted) -> list[str]:
    """The names of other archives that may have these messages: of the same stream, and of its life then."""
    return workspace.catalog.erasures.other_archives(archive, [life.created_ns for life in wanted])
