"""Returns the missing sequences at the edges of a selection, where no two of its chunks enclose them, by the stream as
it is now.

A chunk says nothing of what comes after it. The stream's server says which sequences an hour or a time has, and what it
still holds; of a stream that is gone the catalog knows how far it was seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.source.restored import as_archived
from nats3_dagster.archive.source.windows import first_at
from nats3_dagster.hours import LAST_NS, hour_of, hour_start
from nats3_dagster.jetstream.streams import find_stream
from nats3_dagster.model import Coverage, Incarnation, Selection, SeqRange, StreamState, clipped
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Boundary:
    """The stream of a selection, and what the archive has of it: both asked once."""

    selected: ArchiveSelection
    # As it is now, with the incarnation that the archive has of it; None if it is gone. No history is compared: one
    # that was restored since the last capture is another stream here.
    stream: StreamState | None
    # One for each incarnation, oldest first. Asked after the stream.
    coverages: tuple[Coverage, ...]

    @classmethod
    def now(cls, selected: ArchiveSelection) -> Self:
        """Asks the stream and the catalog. Raises SourceError."""
        state = find_stream(selected.workspace.link, selected.archive.spec.stream)
        coverages = selected.workspace.catalog.coverage.all(selected.archive)
        return cls(selected, as_archived(state, coverages) if state else None, coverages)

    def uncaptured(self, *, up_to_now: bool = False) -> Iterator[tuple[Incarnation, SeqRange]]:
        """The sequences of the selection that are in no chunk and no gap, and that the stream still has, or had when it
        was last seen. Raises SourceError.

        A selection without an end ends with what is archived: new messages come all the time, and no capture could ever
        be complete up to them. `up_to_now`: so does one whose end has not come yet; of hours, the open one does."""
        workspace, archive, selection = self.selected.workspace, self.selected.archive, self.selected.selection
        has_end = bool(selection.hours) or selection.to_ns is not None
        now_ns = ask_clocks(workspace, self.stream).earliest_ns if up_to_now and has_end else LAST_NS
        for coverage in self.coverages:
            life = coverage.incarnation
            if self.stream is not None and self.stream.incarnation == life:
                windows = _in_stream(self.selected, self.stream, coverage, now_ns)
            else:
                windows = _as_last_seen(workspace, selection, coverage)
            for window in windows:
                yield from ((life, r) for r in workspace.catalog.coverage.missing(archive, life, window))

    def expired(self) -> Iterator[tuple[Incarnation, SeqRange]]:
        """The sequences of any time that the stream no longer has, and that are in no chunk and no gap: the next
        capture records them as lost."""
        archive, stream = self.selected.archive, self.stream
        if archive.spec.mode == "consumer" and archive.spec.subjects:
            return  # what its own consumers took is not the archive's, and nothing tells it from what was lost
        known = [coverage.incarnation for coverage in self.coverages]
        if stream is not None and stream.incarnation in known and stream.first_seq > 1:
            below, coverage = SeqRange(1, stream.first_seq - 1), self.selected.workspace.catalog.coverage
            for missing in coverage.missing(archive, stream.incarnation, below):
                yield stream.incarnation, missing

    def without_chunks(self, held: Held) -> Iterator[tuple[Incarnation, SeqRange]]:
        """Yields the sequences that an incarnation may have had in selected hours without a chunk: those between the
        hours before and those after."""
        archive, hours = self.selected.archive, self.selected.workspace.catalog.hours
        if not self.selected.selection.hours:
            return
        # An incarnation begins when the stream is made again, and ends when the next one begins. The first one may have
        # older messages: a stream that was restored has.
        made = [hour_of(c.incarnation.created_ns) for c in self.coverages[1:]]
        for coverage, begin, end in zip(self.coverages, ["", *made], [*made, "9"], strict=True):
            incarnation = coverage.incarnation
            seen = held.hours_of(incarnation)
            for first_ns, end_ns in self.selected.selection.time_ranges():
                first, last = hour_of(first_ns), hour_of(end_ns - 1)
                if any(first <= hour <= last for hour in seen) or end < first or last < begin:
                    continue
                after, before = hours.beside(archive, incarnation, first, last)
                after, before = coverage.start - 1 if after is None else after, before or MAX_SEQUENCE + 1
                if after + 1 < before:
                    yield incarnation, SeqRange(after + 1, before - 1)


def _in_stream(selected: ArchiveSelection, stream: StreamState, coverage: Coverage, now_ns: int) -> Iterator[SeqRange]:
    """The sequences that the selection takes of what the stream has now: up to the end of its times, or, where that
    comes after `now_ns`, up to what is archived. Its hours that have ended are taken whole. Times in sealed hours are
    left out: nothing of them is missing, and the stream's server is not asked where they are."""
    workspace, archive, selection = selected.workspace, selected.archive, selected.selection
    link = workspace.link
    for from_ns, to_ns in selection.time_ranges():
        bounded = from_ns > 0 and to_ns < LAST_NS
        if bounded and workspace.catalog.hours.are_sealed(archive, hour_of(from_ns), hour_of(to_ns - 1)):
            continue
        first = first_at(link, archive.spec, from_ns) if from_ns else coverage.start
        last = stream.last_seq if selection.sequences else coverage.last
        if to_ns < LAST_NS and to_ns <= now_ns:
            last = first_at(link, archive.spec, to_ns) - 1
        elif to_ns < LAST_NS and selection.hours and from_ns < (ended_ns := hour_start(hour_of(now_ns))):
            last = max(last, first_at(link, archive.spec, ended_ns) - 1)
        if selection.sequences:
            first, last = max(first, selection.sequences.first), min(last, selection.sequences.last)
        first = max(first, stream.first_seq)
        if first <= last:
            yield SeqRange(first, last)


def _as_last_seen(workspace: Workspace, selection: Selection, coverage: Coverage) -> Iterator[SeqRange]:
    """Yields the sequences that the selection may have of a stream that is gone: those of its sequences, or the ones
    seen after the last archived one if a time of these may be selected."""
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    if state is None:
        return
    every = SeqRange(coverage.start, state.last_seq)
    if selection.sequences:
        yield from clipped([selection.sequences], every)
        return
    since_ns = coverage.last_ns or 0
    after = clipped([SeqRange(coverage.last + 1, state.last_seq)], every)
    times = selection.time_ranges()
    if any(to_ns < LAST_NS and from_ns <= state.last_ns and since_ns < to_ns for from_ns, to_ns in times):
        yield from after
