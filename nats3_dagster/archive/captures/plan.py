"""The plan of a capture: the sequences of an hour that are missing in an archive.

Invariant: the plan is the hour's sequence bounds minus coverage, so a run is idempotent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nats3_dagster.archive.captures.accept import accept_source
from nats3_dagster.archive.source.absence import absence_reason
from nats3_dagster.archive.source.stream_changes import witness_at
from nats3_dagster.hours import hour_bounds
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    FormerFilter,
    Gap,
    SeqRange,
    StreamState,
    Witness,
)
from nats3_dagster.model.archive import filters_of
from nats3_dagster.objects import StoreOptions
from nats3_dagster.workspace import Workspace

# Below this many sequences a second task costs more than it saves: it opens a connection and a consumer of its own.
TASK_SEQS = 100_000


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """The input of every task of one capture; pickled into the Spark workers."""

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
    """The ranges that a capture of one hour has to read."""

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


def plan(
    workspace: Workspace, archive: Archive, hour: str, *, adopt: bool = False, progress: str | None = None
) -> CapturePlan:
    """Returns the ranges that a capture of this hour has to read. Raises OperatorError for a bad hour, StreamChanged
    for a stream made again."""
    catalog, link, settings = workspace.catalog, workspace.link, workspace.settings
    start_ns, end_ns = hour_bounds(hour)
    begun = catalog.now()
    state = accept_source(workspace, archive, adopt=adopt)
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
    # After the stream was asked for its end: a later change of the subjects is for later sequences.
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
