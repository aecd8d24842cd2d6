"""Settlement: what the durable's count of its deliveries says of sequences that no message came of.

Invariant: an absent sequence is not called `unselected` unless each delivery up to it is accounted for: its message is
in the archive, or comes again. Whatever else the durable delivered went to another client.
"""

import logging
from dataclasses import dataclass, replace

from nats3_dagster.archive.captures.adopt import adopt
from nats3_dagster.archive.captures.commit import merged
from nats3_dagster.archive.source.durables import consumer_missing_error, may_have_lost
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.archive.take.pulled import absence
from nats3_dagster.errors import SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import CLOCKS_S, SECOND_NS, format_time
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.read.times import first_held_at
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.jetstream.take.durable import Durable, find_durable
from nats3_dagster.model import Archive, ChunkMeta, Deliveries, Gap, SeqRange, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """The account of the sequences that no message came of."""

    # What earlier runs had put into the store, and no chunk had.
    chunks: tuple[ChunkMeta, ...] = ()
    gaps: tuple[Gap, ...] = ()
    # Sequences of messages that the stream still holds and that are missing in the archive, the first one of each hole.
    held: tuple[int, ...] = ()


def noticed(workspace: Workspace, archive: Archive, durable: Durable) -> Deliveries:
    """Returns the deliveries of the durable that the archive accounts for. One that was made again since counts from
    its acknowledged ones on, and what was stored before it was made may be lost. Raises SourceError."""
    deliveries = workspace.catalog.durables.deliveries(archive)
    if deliveries and deliveries.created_ns == durable.created_ns:
        if durable.consumer_seq >= deliveries.consumer_seq:
            return deliveries
        # Its server forgot deliveries, or a client set it back: its numbers say nothing of what it delivered before.
        missed_seq = durable.delivered_seq
        log.warning("%s: consumer %s has counted its deliveries back", archive.name, durable.name)
    else:
        client = workspace.link.client
        # The clocks of several servers differ.
        margin_ns = CLOCKS_S * SECOND_NS if client.info.get("cluster") or not client.is_own_jetstream else 0
        missed_seq = first_held_at(workspace.link, durable.stream, durable.created_ns + margin_ns) - 1
        log.warning(
            "%s: consumer %s was made again at %s: what no consumer kept meanwhile is lost",
            archive.name,
            durable.name,
            format_time(durable.created_ns),
        )
    deliveries = Deliveries(
        durable.created_ns, durable.floor_consumer_seq, missed_seq=max(missed_seq, durable.floor_seq)
    )
    workspace.catalog.durables.record(archive, deliveries)
    return deliveries


def settle(workspace: Workspace, archive: Archive, state: StreamState) -> Settled:
    """Account for what no chunk and no gap has, up to the last sequence of `state` and of the durable: by objects that
    are in the store, and by gaps where the stream's leader holds nothing. Raises SourceError, StoreError,
    UnknownConsumer."""
    adopted: list[ChunkMeta] = []
    fault_point("take.settling")
    _settle_erased(workspace, archive, state)
    while True:
        begun = workspace.catalog.now()
        chunks, gaps, held, deliveries = _absent(workspace, archive, state)
        if chunks or gaps:
            workspace.catalog.chunks.commit(archive, chunks, gaps, begun=begun, deliveries=deliveries)
        elif deliveries != workspace.catalog.durables.deliveries(archive):
            workspace.catalog.durables.record(archive, deliveries)
        adopted += chunks
        # What was adopted accounts for deliveries, and so for what else is absent.
        if not chunks:
            return Settled(tuple(adopted), gaps, held)


def _settle_erased(workspace: Workspace, archive: Archive, state: StreamState) -> None:
    """Record the gaps of erased sequences that this catalog does not account for: the stream may still have them."""
    coverage, incarnation = workspace.catalog.coverage, state.incarnation
    start = coverage.start(archive, incarnation)
    missing = coverage.missing(archive, incarnation, SeqRange(start, state.last_seq)) if start <= state.last_seq else ()
    if erased := erased_of(workspace, archive, incarnation, missing):
        workspace.catalog.chunks.commit(archive, (), [Gap(incarnation, erased, "erased")])


def _absent(
    workspace: Workspace, archive: Archive, state: StreamState
) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...], tuple[int, ...], Deliveries]:
    """Chunks to adopt; or, where there are none, the gaps and the sequences of messages that the stream holds. And the
    deliveries that are accounted for once these are committed."""
    coverage, link, incarnation = workspace.catalog.coverage, workspace.link, state.incarnation
    # The durable is asked before the leader and after it. What it delivers in between is not accounted for yet, and may
    # be what is absent.
    before = _durable(workspace, archive)
    deliveries = noticed(workspace, archive, before)
    start, last = coverage.start(archive, incarnation), max(state.last_seq, before.delivered_seq)
    # The catalog before the leader: a message that another run commits and acknowledges in between is refused as a gap.
    missing = coverage.missing(archive, incarnation, SeqRange(start, last)) if start <= last else ()
    held = held_ranges(link, incarnation, missing, archive.spec.subjects)
    is_settled = not before.outstanding
    gaps: tuple[Gap, ...] = ()
    if missing:
        now, removing = same_stream(link, incarnation), coverage.removing_settings(incarnation)
        after = _durable(workspace, archive)
        if after.created_ns != before.created_ns:
            raise SourceError(f"Consumer {before.name} was made again meanwhile", "Run it again")
        shared_seq = after.delivered_seq if may_have_lost(deliveries, after) else 0
        absent = [SeqRange(r.first, (seq or r.last + 1) - 1) for r, seq in zip(missing, held, strict=True)]
        reasons = (
            absence(archive.spec, state, removing, seqs, now, deliveries.missed_seq, shared_seq)
            for seqs in absent
            if seqs.size
        )
        chunks, gaps = adopt(workspace, archive, merged([gap for parts in reasons for gap in parts]))
        # What the stream holds, and the durable has delivered: to a run that the catalog forgot, or to another client.
        undelivered = tuple(
            SeqRange(seq, min(r.last, before.delivered_seq))
            for r, seq in zip(missing, held, strict=True)
            if is_settled and seq and seq <= before.delivered_seq
        )
        if undelivered:
            chunks = (*chunks, *adopt(workspace, archive, [Gap(incarnation, undelivered, "undelivered")])[0])
            is_settled = False
        if chunks:
            messages = sum(chunk.messages for chunk in chunks)
            return chunks, (), (), replace(deliveries, accounted=deliveries.accounted + messages)
    if is_settled:
        deliveries = Deliveries(deliveries.created_ns, before.consumer_seq, missed_seq=deliveries.missed_seq)
    return (), gaps, tuple(seq for seq in held if seq is not None), deliveries


def _durable(workspace: Workspace, archive: Archive) -> Durable:
    """The archive's durable, also one that no longer fits. Raises UnknownConsumer."""
    durable = find_durable(workspace.link, archive.spec.stream, archive.spec.durable or "")
    if durable is None:
        raise consumer_missing_error(archive)
    return durable
