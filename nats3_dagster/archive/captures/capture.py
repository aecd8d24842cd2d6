"""Capture: which sequences of an hour an archive lacks, and how what was read becomes part of the archive.

Invariant: the plan is the hour's sequence bounds minus coverage, so a run is idempotent; and only `commit` makes a
chunk exist, in one Postgres transaction, after its object is safe in the store.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nats3_dagster.archive.captures.absence import absence_reason
from nats3_dagster.archive.source import observe_source, rewritten, shorter, witness_at
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import hour_bounds
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    ChunkMeta,
    FormerFilter,
    Gap,
    SeqRange,
    StreamState,
    Witness,
)  # fmt: skip
from nats3_dagster.model.archive import filters_of
from nats3_dagster.objects import StoreOptions
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Below this many sequences a second task costs more than it saves: it opens a connection and a consumer of its own.
TASK_SEQS = 100_000


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """What every task of one capture needs; pickled into the Spark workers."""

    spec: ArchiveSpec
    state: StreamState
    hour: str
    nats: NatsOptions
    store: StoreOptions
    # The subject on which tasks report how far they are; None for no reports.
    progress: str | None = None
    # The settings of the stream that remove messages and that were ever seen, as in its configuration.
    removing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # The subjects that the archive had before, of sequences that may be read now.
    former_filters: tuple[FormerFilter, ...] = ()
    # Whether messages of these sequences were archived, and are given up: what is absent between two messages is lost.
    given_up: bool = False

    def subjects(self, seqs: SeqRange) -> tuple[str, ...]:
        """The subjects that the archive takes of these sequences: those of a plan never have two filters."""
        ((_, subjects),) = filters_of(self.spec.subjects, self.former_filters, self.state.incarnation, seqs)
        return subjects


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """What a capture of one hour has to read."""

    archive: Archive
    job: CaptureJob
    # The hour's sequences; None where the stream has none of it.
    window: SeqRange | None
    # Those of them to read, disjoint and ascending; each is of one filter.
    missing: tuple[SeqRange, ...]
    # Sequences that are already gone from the stream, of any hour.
    gaps: tuple[Gap, ...]
    # The catalog's time before the first object is put.
    begun: datetime
    # The window's last message, if the stream still has it.
    witness: Witness | None = None

    def tasks(self, parallel: int) -> tuple[SeqRange, ...]:
        """`missing` cut for about `parallel` tasks of like size, none below TASK_SEQS unless a range is."""
        total = sum(r.size for r in self.missing)
        size = max(TASK_SEQS, -(-total // max(parallel, 1)))
        return tuple(
            SeqRange(first, min(first + size - 1, r.last))
            for r in self.missing
            for first in range(r.first, r.last + 1, size)
        )


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """What one run added to the archive."""

    archive: str
    hour: str
    window: SeqRange | None
    # The hour's sequences that were covered before.
    found: int
    chunks: tuple[ChunkMeta, ...] = ()
    gaps: tuple[Gap, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def messages(self) -> int:
        return sum(c.messages for c in self.chunks)

    @property
    def payload_bytes(self) -> int:
        return sum(c.payload_bytes for c in self.chunks)

    @property
    def stored_bytes(self) -> int:
        return sum(c.stored_bytes for c in self.chunks)

    @property
    def lost(self) -> int:
        """Sequences that went from the stream before they were captured."""
        return sum(g.size for g in self.gaps if g.is_loss) + sum(c.lost for c in self.chunks)


def plan(
    workspace: Workspace, archive: Archive, hour: str, *, adopt: bool = False, progress: str | None = None
) -> CapturePlan:
    """What a capture of this hour has to read. Raises OperatorError for a bad hour, StreamChanged for a stream made
    again."""
    catalog, link, settings = workspace.catalog, workspace.link, workspace.settings
    start_ns, end_ns = hour_bounds(hour)
    begun = catalog.now()
    state = observe_source(workspace, archive, adopt=adopt)
    expected = catalog.coverage.start(archive, state.incarnation)
    # Both bounds come from the one function of time that the server has, so that hours tile the sequences whatever the
    # clock did; the end is asked for last, so that an open hour takes all that is there.
    first = max(first_seq_at(link, state.name, start_ns), expected)
    last = first_seq_at(link, state.name, end_ns) - 1
    window = SeqRange(first, last) if first <= last else None
    gone = SeqRange(expected, state.first_seq - 1) if expected < state.first_seq else None
    expired = tuple(catalog.coverage.missing(archive, state.incarnation, gone)) if gone else ()
    removing = catalog.coverage.removing_settings(state.incarnation)
    reason = absence_reason([state.config, removing], below_head=True)
    # After the stream was asked for its end: a later change of the subjects is for sequences behind it.
    archive = catalog.archives.settled(archive)
    missing = catalog.coverage.missing(archive, state.incarnation, window) if window else ()
    return CapturePlan(
        archive=archive,
        job=CaptureJob(
            archive.spec, state, hour, settings.nats, settings.store, progress, removing, archive.former_filters
        ),
        window=window,
        missing=tuple(part for seqs in missing for part, _ in archive.filters(state.incarnation, seqs)),
        gaps=(Gap(state.incarnation, expired, reason),) if expired else (),
        begun=begun,
        witness=witness_at(link, state.name, window.last) if window else None,
    )


def commit(
    workspace: Workspace, planned: CapturePlan, outcomes: Iterable[ChunkMeta | Gap], run_id: str | None = None
) -> CaptureResult:
    """Make what the tasks brought back part of the archive, in one transaction, and what earlier captures had put into
    the store of sequences that are gone from the stream. Raises Conflict when another capture committed some of it
    first: plan again, its coverage counts then. StreamChanged, and nothing is committed, when the stream forgot
    messages of the window since it was planned: what was read may be of two histories."""
    chunks: list[ChunkMeta] = []
    gaps = list(planned.gaps)
    for outcome in outcomes:
        if isinstance(outcome, ChunkMeta):
            chunks.append(outcome)
        else:
            gaps.append(outcome)
    _check_history(workspace, planned)
    # It imports pyarrow, 0.1 s: commands that only ask what is missing do without.
    from nats3_dagster.archive.proof.adopt import adopt, fill

    adopted, remaining = adopt(workspace, planned.archive, merged(gaps))
    chunks = [*fill(workspace, planned.archive, chunks), *adopted]
    fault_point("capture.before_commit")
    workspace.catalog.chunks.commit(
        planned.archive, chunks, remaining, run_id=run_id, begun=planned.begun, source=planned.job.state.incarnation,
    )  # fmt: skip
    fault_point("capture.after_commit")
    _keep_witness(workspace, planned)
    result = CaptureResult(
        archive=planned.archive.name,
        hour=planned.job.hour,
        window=planned.window,
        found=(planned.window.size if planned.window else 0) - sum(r.size for r in planned.missing),
        chunks=tuple(sorted(chunks, key=lambda c: c.covers)),
        gaps=remaining,
    )
    if result.lost:
        log.warning(
            "%s: %d sequences of stream %s were gone before they were captured (%s)",
            result.archive,
            result.lost,
            planned.job.state.name,
            ", ".join(str(r) for g in remaining if g.is_loss for r in g.ranges[:5]),
        )
    return result


def uncovered(workspace: Workspace, planned: CapturePlan) -> tuple[SeqRange, ...]:
    """Sequences of the plan's window that are still in no chunk and no gap: none after a complete capture."""
    if not planned.window:
        return ()
    return workspace.catalog.coverage.missing(planned.archive, planned.job.state.incarnation, planned.window)


def _check_history(workspace: Workspace, planned: CapturePlan) -> None:
    """Raises StreamChanged if the stream ends before the planned window, or has another message at its end."""
    if planned.window is None:
        return
    planned_state = planned.job.state
    try:
        state = stream_state(workspace.link, planned_state.name)
        if state.incarnation.created_ns != planned_state.incarnation.server_created_ns:
            return  # what was read of the earlier one is good, and may be all that is left of it
        changed = shorter(planned.archive, state, planned.window.last)
        if changed is None and planned.witness:
            changed = rewritten(workspace.link, planned.archive, state, planned.witness)
    except Nats3Error as error:
        log.info("%s: whether the stream kept its messages is asked next time: %s", planned.archive.name, error)
        return
    if changed:
        raise changed


def _keep_witness(workspace: Workspace, planned: CapturePlan) -> None:
    """Keep the window's last message as the witness of what is captured, if it is."""
    if planned.witness:
        coverage, incarnation = workspace.catalog.coverage, planned.job.state.incarnation
        seq = planned.witness.seq
        if not coverage.missing(planned.archive, incarnation, SeqRange(seq, seq)):
            coverage.keep_witness(planned.archive, incarnation, planned.witness)


def merged(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """One gap for each reason and incarnation, its ranges ascending."""
    by_reason: dict[tuple[object, str], list[Gap]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.incarnation, gap.reason), []).append(gap)
    return tuple(
        Gap(same[0].incarnation, tuple(sorted(r for g in same for r in g.ranges)), same[0].reason)
        for same in by_reason.values()
    )
