"""Uncovered: which sequences of a selection no chunk holds, and may have been lost."""

from collections.abc import Iterable, Iterator, Sequence

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.boundary_gaps import Boundary
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, Chunk, Incarnation, SeqRange, clipped, listed_ranges
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.steps import Next, Step

# Sequences of one incarnation.
Span = tuple[Incarnation, SeqRange]
# Runs of sequences whose losses are asked for one by one.
MOST_ASKED = 20


def whole_chunks(selected: ArchiveSelection, *, up_to_now: bool = False) -> tuple[tuple[Chunk, ...], list[SeqRange]]:
    """Returns the chunks of the selection, and what is `uncovered`, of one state of the archive."""

    def asked() -> tuple[tuple[Chunk, ...], list[SeqRange]]:
        chunks = selected.chunks()
        return chunks, uncovered(selected, Held.of_chunks(chunks), up_to_now=up_to_now)

    return selected.of_one_state(asked)


def whole_hours(selected: ArchiveSelection) -> tuple[tuple[HourOfChunks, ...], list[SeqRange]]:
    """The same with the sums of the chunks by hour, and `up_to_now`."""

    def asked() -> tuple[tuple[HourOfChunks, ...], list[SeqRange]]:
        hours = selected.hours()
        return hours, uncovered(selected, Held.of_hours(hours), up_to_now=True)

    return selected.of_one_state(asked)


def uncovered(selected: ArchiveSelection, held: Held, *, up_to_now: bool = False) -> list[SeqRange]:
    """Sequences of the selection that its chunks do not hold and that may have been lost, ascending within each
    incarnation. The edges of the selection count: an hour without a chunk, and what came after the last one. A loss
    right before or after a run of chunks counts too: nothing tells on which side of the boundary those messages were.
    `up_to_now`: see `Boundary.uncaptured`. Raises SourceError if the stream cannot be asked."""
    boundary, runs = Boundary.now(selected), list(held.runs(selected.selection.hours))
    spans = [*runs, *boundary.without_chunks(held)]
    missing = [
        *boundary.uncaptured(up_to_now=up_to_now),
        *_between(selected, runs),
        *_beside(spans, {*boundary.expired(), *_losses_near(selected, spans)}),
        *_recorded(selected, held),
    ]
    every = selected.selection.sequences or SeqRange(1, MAX_SEQUENCE)
    joined = _joined((life, part) for life, r in missing for part in clipped([r], every))
    if len(boundary.coverages) == 1:
        return [r for _, r in joined]
    return [OfIncarnation.of(life, r) for life, r in joined]


def lost_of_selection(archive: Archive, lost: Sequence[SeqRange]) -> tuple[str, Step]:
    """Returns what an error says of selected sequences that are not in the archive (see `uncovered`), and its hint."""
    return (
        f"Sequences of the selection are not in archive {archive.name}: {listed_ranges(lost)}",
        Next.CAPTURE_OR_GO_OVER_GAPS(),
    )


class OfIncarnation(SeqRange):
    """A range of an archive of several incarnations: as text it names its own."""

    incarnation: Incarnation

    @classmethod
    def of(cls, incarnation: Incarnation, seqs: SeqRange) -> "OfIncarnation":
        named = cls(*seqs)
        named.incarnation = incarnation
        return named

    def __str__(self) -> str:
        return f"{super().__str__()} (stream of {format_time(self.incarnation.created_ns)})"


def _between(selected: ArchiveSelection, runs: Iterable[Span]) -> Iterator[Span]:
    """Yields the sequences of these runs that are in no chunk and no gap."""
    coverage = selected.workspace.catalog.coverage
    for life, run in runs:
        yield from ((life, r) for r in coverage.missing(selected.archive, life, run))


def _losses_near(selected: ArchiveSelection, spans: Sequence[Span]) -> Iterator[Span]:
    """The recorded losses in these spans and right beside them; where there are many spans, those between them too."""
    if len(spans) > MOST_ASKED:
        first, last = min(span.first for _, span in spans), max(span.last for _, span in spans)
        spans = [(life, SeqRange(first, last)) for life in {life for life, _ in spans}]
    for life, span in spans:
        beside = SeqRange(max(span.first - 1, 0), min(span.last + 1, MAX_SEQUENCE))
        gaps = selected.workspace.catalog.gaps.select(selected.archive, incarnation=life, within=beside)
        yield from ((life, r) for gap in gaps if gap.is_loss for r in gap.ranges)


def _beside(spans: Iterable[Span], lost: Iterable[Span]) -> Iterator[Span]:
    """Yields what was lost in these spans and right beside them."""
    for life, span in spans:
        for of, r in lost:
            if of == life and r.first <= span.last + 1 and span.first <= r.last + 1:
                yield of, r


def _recorded(selected: ArchiveSelection, held: Held) -> Iterator[Span]:
    """Yields the losses that the catalog has of the selection itself. Some are near no chunk of it: those of two in a
    row, and of a time without any chunk."""
    catalog, selection = selected.workspace.catalog, selected.selection
    every = selection.sequences or SeqRange(1, MAX_SEQUENCE)
    for gap in catalog.gaps.losses(selected.archive, every, list(selection.time_ranges())):
        yield from ((gap.incarnation, r) for r in gap.ranges)
    for life, lossy in held.lossy.items():
        yield from ((life, r) for absent in catalog.chunks.absent_ranges(lossy) for r in absent)


def _joined(ranges: Iterable[Span]) -> list[Span]:
    """Ranges of one incarnation that overlap or touch as one; ascending within each incarnation, the oldest first."""
    joined: list[Span] = []
    for incarnation, r in sorted(set(ranges), key=lambda found: (found[0].created_ns, found[1])):
        if joined and joined[-1][0] == incarnation and r.first <= joined[-1][1].last + 1:
            joined[-1] = incarnation, SeqRange(joined[-1][1].first, max(joined[-1][1].last, r.last))
        else:
            joined.append((incarnation, r))
    return joined
