"""Settlement: what the durable's count of its deliveries says of sequences that no message came of.

Invariant: an absent sequence is not called `unselected` unless each delivery up to it is accounted for: its message is
in the archive, or comes again. Whatever else the durable delivered went to another client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nats3_dagster.archive.captures.adopt import adopt
from nats3_dagster.archive.captures.commit import merged
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.source.durables import may_have_lost, observe_durable
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.archive.take.deliveries import record_durable
from nats3_dagster.archive.take.pulled import absence
from nats3_dagster.errors import SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.model import ChunkMeta, Deliveries, Gap, SeqRange
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Settled:
    """The account of the sequences that no message came of."""

    # What earlier runs had put into the store, and no chunk had.
    chunks: tuple[ChunkMeta, ...] = ()
    gaps: tuple[Gap, ...] = ()
    # Sequences of messages that the stream still holds and that are missing in the archive, the first one of each hole.
    held: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at what is absent: the durable was asked first, then the catalog, then the stream's leader."""

    durable: Durable
    # Those of the durable that the archive accounted for.
    deliveries: Deliveries
    # What no chunk and no gap has, ascending; and the first message that the stream holds of each range.
    missing: tuple[SeqRange, ...]
    held: Sequence[int | None]

    @property
    def undelivered(self) -> tuple[SeqRange, ...]:
        """Sequences that the stream holds, and that the durable has delivered: to a run that the catalog forgot, or to
        another client. Empty while the durable may deliver some of them again."""
        if self.durable.outstanding:
            return ()
        return tuple(
            SeqRange(seq, min(r.last, self.durable.delivered_seq))
            for r, seq in zip(self.missing, self.held, strict=True)
            if seq and seq <= self.durable.delivered_seq
        )


def settle(workspace: Workspace, source: Source) -> Settled:
    """Account for what no chunk and no gap has, up to the last sequence of the stream as it was opened and of the
    durable: by objects that are in the store, and by gaps where the stream's leader holds nothing. Raises SourceError,
    StoreError, UnknownConsumer."""
    archive, catalog = source.archive, workspace.catalog
    adopted: list[ChunkMeta] = []
    fault_point("take.settling")
    _settle_erased(workspace, source)
    while True:
        begun = catalog.now()
        settled, deliveries = _settled(workspace, source)
        if settled.chunks or settled.gaps:
            catalog.chunks.commit(archive, settled.chunks, settled.gaps, begun=begun, deliveries=deliveries)
        elif deliveries != catalog.durables.deliveries(archive):
            catalog.durables.record(archive, deliveries)
        adopted += settled.chunks
        # What was adopted accounts for deliveries, and so for what else is absent.
        if not settled.chunks:
            return replace(settled, chunks=tuple(adopted))


def _settle_erased(workspace: Workspace, source: Source) -> None:
    """Record the gaps of erased sequences that this catalog does not account for: the stream may still have them."""
    archive, state, coverage = source.archive, source.state, workspace.catalog.coverage
    incarnation = state.incarnation
    start = coverage.start(archive, incarnation)
    missing = coverage.missing(archive, incarnation, SeqRange(start, state.last_seq)) if start <= state.last_seq else ()
    if erased := erased_of(workspace, archive, incarnation, missing):
        workspace.catalog.chunks.commit(archive, (), [Gap(incarnation, erased, "erased")])


def _settled(workspace: Workspace, source: Source) -> tuple[Settled, Deliveries]:
    """Chunks to adopt; or, where there are none, the gaps and the sequences of messages that the stream holds. And the
    deliveries that are accounted for once these are committed."""
    look = _look(workspace, source)
    deliveries, undelivered = look.deliveries, look.undelivered
    orphans = Orphans(workspace, source.archive)
    chunks, gaps = adopt(orphans, merged(_absences(workspace, source, look)))
    if undelivered:
        chunks = (*chunks, *adopt(orphans, [Gap(source.state.incarnation, undelivered, "undelivered")])[0])
    if chunks:
        messages = sum(chunk.messages for chunk in chunks)
        return Settled(chunks), replace(deliveries, accounted=deliveries.accounted + messages)
    if not undelivered and not look.durable.outstanding:
        deliveries = replace(deliveries, consumer_seq=look.durable.consumer_seq, accounted=0, most=1)
    return Settled((), gaps, tuple(seq for seq in look.held if seq is not None)), deliveries


def _look(workspace: Workspace, source: Source) -> _Look:
    archive, state, coverage = source.archive, source.state, workspace.catalog.coverage
    durable = observe_durable(workspace, archive)
    deliveries = record_durable(workspace, archive, durable)
    start, last = coverage.start(archive, state.incarnation), max(state.last_seq, durable.delivered_seq)
    # The catalog before the leader: a message that another run commits and acknowledges in between is refused as a gap.
    missing = coverage.missing(archive, state.incarnation, SeqRange(start, last)) if start <= last else ()
    held = held_ranges(workspace.link, state.incarnation, missing, archive.spec.subjects)
    return _Look(durable, deliveries, missing, held)


def _absences(workspace: Workspace, source: Source, look: _Look) -> list[Gap]:
    """The sequences without a message in the stream, with their reasons. The durable is asked a second time, after
    the leader: what it delivered in between is not accounted for yet, and may be what is absent."""
    if not look.missing:
        return []
    state = source.state
    now = same_stream(workspace.link, state.incarnation)
    removing = workspace.catalog.coverage.removing_settings(state.incarnation)
    after = observe_durable(workspace, source.archive)
    if after.created_ns != look.durable.created_ns:
        raise SourceError(f"Consumer {after.name} was made again meanwhile", "Run it again")
    shared_seq = after.delivered_seq if may_have_lost(look.deliveries, after) else 0
    absent = [SeqRange(r.first, (seq or r.last + 1) - 1) for r, seq in zip(look.missing, look.held, strict=True)]
    return [
        gap
        for seqs in absent
        if seqs.size
        for gap in absence(source.archive.spec, state, removing, seqs, now, look.deliveries.missed_seq, shared_seq)
    ]
