"""Lookup: which chunks of an archive a selection takes, and which of its sequences no chunk holds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from nats3_dagster.archive.selected.boundary_gaps import expired, times_of, uncaptured, without_chunks
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.source.restored import archived_stream
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.catalog.contents.subjects import Probe
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange, clipped, listed_ranges
from nats3_dagster.steps import Next, Step
from nats3_dagster.subjects import is_one_subject
from nats3_dagster.workspace import Workspace

T = TypeVar("T")
# Chunks that are held at a time: 2.4 KB each.
PAGE = 10_000
# Runs of sequences whose losses are asked for one by one.
MOST_ASKED = 20


def chunks_of(workspace: Workspace, archive: Archive, selection: Selection) -> tuple[Chunk, ...]:
    """The live chunks in the hours, times and sequences of the selection, in stream order, with their counts by
    subject, and by minute where times cut them. Those of other subjects are among them, because `uncovered` needs them:
    see `with_subjects`."""
    return workspace.catalog.chunks.select(archive, **_conditions(selection))


def pages_of(workspace: Workspace, archive: Archive, selection: Selection) -> Iterator[tuple[Chunk, ...]]:
    """The same chunks, PAGE at a time."""
    return workspace.catalog.chunks.pages(archive, PAGE, **_conditions(selection))


def _conditions(selection: Selection) -> dict[str, Any]:
    return {
        "hours": selection.hours or None,
        "time_range": selection.times,
        "seqs": selection.sequences,
        "with_subjects": True,
        "with_minutes": selection.times is not None,
    }


def with_subjects(workspace: Workspace, chunks: Iterable[Chunk], selection: Selection) -> tuple[Chunk, ...]:
    """The chunks that have, or may have, a message of the selected subjects: by their counts, or where they have too
    many subjects to count, by their bloom filter. A filter with a wildcard may be met by any chunk without counts."""
    taken = [c for c in chunks if c.meta.subjects is None or any(map(selection.selects_subject, c.meta.subjects))]
    uncounted = [c.id for c in taken if c.meta.subjects is None]
    if not uncounted or not selection.subjects or not all(map(is_one_subject, selection.subjects)):
        return tuple(taken)
    from nats3_dagster.chunks.bloom import probe  # here, because it loads Arrow, and most callers never come here

    without = workspace.catalog.subjects.without(uncounted, [Probe(*probe(s)) for s in selection.subjects])
    return tuple(c for c in taken if c.id not in without)


def of_one_state(workspace: Workspace, archive: Archive, asked: Callable[[], T]) -> T:
    """The answer of `asked`, which asks the catalog several times, of one state of the archive: what is committed
    between two of the questions would be in one of the answers alone."""
    while True:
        revision = workspace.catalog.hours.revision(archive)
        answer = asked()
        if workspace.catalog.hours.revision(archive) == revision:
            return answer


def whole_chunks(
    workspace: Workspace, archive: Archive, selection: Selection, *, up_to_now: bool = False
) -> tuple[tuple[Chunk, ...], list[SeqRange]]:
    """Returns `chunks_of` and `uncovered` of one state of the archive."""

    def asked() -> tuple[tuple[Chunk, ...], list[SeqRange]]:
        chunks = chunks_of(workspace, archive, selection)
        return chunks, uncovered(workspace, archive, selection, Held.of_chunks(chunks), up_to_now=up_to_now)

    return of_one_state(workspace, archive, asked)


def whole_hours(
    workspace: Workspace, archive: Archive, selection: Selection
) -> tuple[tuple[HourOfChunks, ...], list[SeqRange]]:
    """The same with the sums of the chunks by hour, and `up_to_now`."""

    def asked() -> tuple[tuple[HourOfChunks, ...], list[SeqRange]]:
        hours = workspace.catalog.chunk_sums.hours(archive, selection)
        return hours, uncovered(workspace, archive, selection, Held.of_hours(hours), up_to_now=True)

    return of_one_state(workspace, archive, asked)


def uncovered(
    workspace: Workspace, archive: Archive, selection: Selection, held: Held, *, up_to_now: bool = False
) -> list[SeqRange]:
    """Sequences of the selection that its chunks do not hold and that may have been lost,
    ascending within each incarnation. The edges of the selection count: an hour without a chunk, and what came after
    the last one. A loss right before or after a run of chunks counts too: nothing tells on which side of the boundary
    those messages were. `up_to_now`: see `uncaptured`. Raises SourceError if the stream cannot be asked."""
    catalog = workspace.catalog
    stream = archived_stream(workspace, archive)
    lost = list(expired(workspace, archive, stream))
    ranges = list(uncaptured(workspace, archive, selection, stream, up_to_now=up_to_now))
    runs = list(held.runs(selection.hours))
    for incarnation, run in runs:
        ranges += [(incarnation, r) for r in catalog.coverage.missing(archive, incarnation, run)]
    spans = [*runs, *without_chunks(workspace, archive, selection, held)]
    lost += _losses_near(workspace, archive, spans)
    for life, span in spans:
        ranges += [(of, r) for of, r in lost if of == life and r.first <= span.last + 1 and span.first <= r.last + 1]
    every = selection.sequences or SeqRange(1, 2**63 - 2)
    # Also where no chunk of the selection is near: of two losses in a row, and of one in a time without any chunk.
    times = list(times_of(selection))
    ranges += [(gap.incarnation, r) for gap in catalog.gaps.losses(archive, every, times) for r in gap.ranges]
    for life, lossy in held.lossy.items():
        ranges += [(life, r) for absent in catalog.chunks.absent_ranges(lossy) for r in absent]
    joined = _joined((life, part) for life, r in ranges for part in clipped([r], every))
    if not joined or len(catalog.coverage.all(archive)) == 1:
        return [r for _, r in joined]
    return [OfIncarnation.of(life, r) for life, r in joined]


def _losses_near(
    workspace: Workspace, archive: Archive, spans: Sequence[tuple[Incarnation, SeqRange]]
) -> set[tuple[Incarnation, SeqRange]]:
    """The recorded losses in these spans and right beside them; where there are many spans, those between them too."""
    if len(spans) > MOST_ASKED:
        first, last = min(span.first for _, span in spans), max(span.last for _, span in spans)
        spans = [(life, SeqRange(first, last)) for life in {life for life, _ in spans}]
    near: set[tuple[Incarnation, SeqRange]] = set()
    for life, span in spans:
        beside = SeqRange(max(span.first - 1, 0), min(span.last + 1, 2**63 - 2))
        gaps = workspace.catalog.gaps.select(archive, incarnation=life, within=beside)
        near.update((life, r) for gap in gaps if gap.is_loss for r in gap.ranges)
    return near


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


def lost_of_selection(archive: Archive, lost: Sequence[SeqRange]) -> tuple[str, Step]:
    """Returns what an error says of selected sequences that are not in the archive (see `uncovered`), and its hint."""
    return (
        f"Sequences of the selection are not in archive {archive.name}: {listed_ranges(lost)}",
        Next.CAPTURE_OR_GO_OVER_GAPS(),
    )


def _joined(ranges: Iterable[tuple[Incarnation, SeqRange]]) -> list[tuple[Incarnation, SeqRange]]:
    """Ranges of one incarnation that overlap or touch as one; ascending within each incarnation, the oldest first."""
    joined: list[tuple[Incarnation, SeqRange]] = []
    for incarnation, r in sorted(set(ranges), key=lambda found: (found[0].created_ns, found[1])):
        if joined and joined[-1][0] == incarnation and r.first <= joined[-1][1].last + 1:
            joined[-1] = incarnation, SeqRange(joined[-1][1].first, max(joined[-1][1].last, r.last))
        else:
            joined.append((incarnation, r))
    return joined
