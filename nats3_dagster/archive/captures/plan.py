"""The plan of a capture: the sequences of its hours that are missing in an archive.

Invariant: the plan is the hours' sequence bounds minus coverage, so a run is idempotent.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nats3_dagster.archive.captures.hour_windows import HourWindow, job_windows
from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.source.absence import absence_reason
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.source.stream_changes import witness_at
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import (
    Archive,
    Gap,
    SeqRange,
    Witness,
    clipped,
    without,
)
from nats3_dagster.workspace import Workspace

# Below this many sequences a second task costs more than it saves: it opens a connection and a consumer of its own.
TASK_SEQS = 100_000
# But from this number of hours on it saves time, as each hour is an object to compress and to put.
TASK_HOURS = 50


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """The ranges that a capture has to read."""

    archive: Archive
    job: CaptureJob
    # Of the job's hours, ascending.
    windows: tuple[HourWindow, ...]
    # The sequences of them to read, disjoint and ascending; each range is of one filter, and may hold several hours.
    missing: tuple[SeqRange, ...]
    # Sequences that are already gone from the stream, of any hour.
    gaps: tuple[Gap, ...]
    # The catalog's time before the first object is put.
    begun: datetime
    # The last message of the last window that ends with a message the stream still has.
    witness: Witness | None = None

    @property
    def hours(self) -> tuple[str, ...]:
        return tuple(window.hour for window in self.windows)

    @property
    def spans(self) -> tuple[SeqRange, ...]:
        """The sequences of the windows, joined where they touch."""
        spans: list[SeqRange] = []
        for window in self.windows:
            if window.seqs and spans and spans[-1].last + 1 == window.seqs.first:
                spans[-1] = SeqRange(spans[-1].first, window.seqs.last)
            elif window.seqs:
                spans.append(window.seqs)
        return tuple(spans)

    def tasks(self, parallel: int) -> tuple[tuple[SeqRange, ...], ...]:
        """The ranges of each of `parallel` tasks at most, of like size: `missing`, cut between tasks. There are several
        for more than TASK_SEQS sequences, or for TASK_HOURS hours each. Hours below TASK_SEQS stay whole, so that each
        becomes the same chunk whatever is captured with it."""
        total = sum(r.size for r in self.missing)
        count = max(1, min(parallel, max(-(-total // TASK_SEQS), len(self.job.hours) // TASK_HOURS)))
        bounds = [first for _, first in self.job.hours] + [span.last + 1 for span in self.spans[-1:]]
        return tuple(_shares(self.missing, -(-total // count), bounds))


def plan(workspace: Workspace, source: Source, hours: Sequence[str]) -> CapturePlan:
    """Returns a job that captures the first of these hours, which are ascending: up to the number that one job takes,
    and up to the last sequence of the stream as it was opened. Raises OperatorError for a bad hour, SourceError."""
    catalog, link, settings = workspace.catalog, workspace.link, workspace.settings
    archive, state = source.archive, source.state
    begun = catalog.now()
    expected = catalog.coverage.start(archive, state.incarnation)
    windows = job_windows(link, state, hours, expected)
    gone = SeqRange(expected, state.first_seq - 1) if expected < state.first_seq else None
    expired = tuple(catalog.coverage.missing(archive, state.incarnation, gone)) if gone else ()
    removing = catalog.coverage.removing_settings(state.incarnation)
    reason = absence_reason([*state.configs, removing], below_head=True)
    # After the stream was asked for its end: a later change of the subjects is for later sequences.
    archive = catalog.archives.reread(archive)
    planned = CapturePlan(
        archive=archive,
        job=CaptureJob(
            archive.spec,
            state,
            tuple((window.hour, window.seqs.first) for window in windows if window.seqs),
            settings.nats,
            settings.store,
            removing=removing,
            former_filters=archive.former_filters,
        ),
        windows=windows,
        missing=(),
        gaps=(Gap(state.incarnation, expired, reason),) if expired else (),
        begun=begun,
        witness=_witness(link, state.read_stream, windows),
    )
    wanted = uncovered(workspace, planned)
    # The stream may still have what was erased: it is not read, and no gap is of two plans.
    erased = without(erased_of(workspace, archive, state.incarnation, wanted), expired)
    missing = tuple(part for seqs in without(wanted, erased) for part, _ in archive.filters(state.incarnation, seqs))
    gaps = (*planned.gaps, Gap(state.incarnation, erased, "erased")) if erased else planned.gaps
    return replace(planned, missing=missing, gaps=gaps)


def uncovered(workspace: Workspace, planned: CapturePlan) -> tuple[SeqRange, ...]:
    """Sequences of the plan's windows that are in no chunk and no gap: none after a complete capture."""
    spans = planned.spans
    if not spans:
        return ()
    whole = SeqRange(spans[0].first, spans[-1].last)
    missing = workspace.catalog.coverage.missing(planned.archive, planned.job.state.incarnation, whole)
    return tuple(part for span in spans for part in clipped(missing, span))


def _witness(link: Link, stream: str, windows: Sequence[HourWindow]) -> Witness | None:
    """A message at the end of a window, of the last one that has one. What a server forgets are its newest messages: so
    this message answers for all windows before it."""
    for window in reversed(windows):
        if window.seqs and (witness := witness_at(link, stream, window.seqs.last)):
            return witness
    return None


def _shares(ranges: Sequence[SeqRange], size: int, bounds: Sequence[int]) -> Iterator[tuple[SeqRange, ...]]:
    """The ranges in shares of about `size` sequences, the last one of less. `bounds`: where each hour begins, and what
    comes after the last one."""
    share: list[SeqRange] = []
    room = size
    for whole in ranges:
        first = whole.first
        while first <= whole.last:
            last = first + room - 1
            following = bisect_right(bounds, last)
            if 0 < following < len(bounds) and bounds[following] - bounds[following - 1] < TASK_SEQS:
                last = bounds[following] - 1
            part = SeqRange(first, min(last, whole.last))
            share.append(part)
            first, room = part.last + 1, room - part.size
            if room <= 0:
                yield tuple(share)
                share, room = [], size
    if share:
        yield tuple(share)
