"""Next chunks: which chunks follow those that a reader has, as far as nothing between them is missing.

Invariant: nothing is passed over. Sequences that a capture may still fill are waited for; what was lost is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.boundary_gaps import Boundary
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.source.windows import first_at
from nats3_dagster.hours import CLOCKS_S, LAST_NS, SECOND_NS, hour_of
from nats3_dagster.model import REMOVED, Chunk, Coverage, Incarnation, SeqRange, StreamState, clipped
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace

# A sequence of one incarnation: everything of the selection up to it was read.
Position = tuple[Incarnation, int]


@dataclass(frozen=True, slots=True)
class NextChunks:
    """The chunks and gaps after a position."""

    # In stream order, with their counts by subject; those of other subjects are among them.
    chunks: tuple[Chunk, ...]
    # What is in the way where there are none: sequences that were lost or retired.
    lost: tuple[SeqRange, ...] = ()
    # Or some that are in no chunk and no gap yet: a capture may still fill them, or record them as lost.
    is_open: bool = False


def next_chunks(
    selected: ArchiveSelection, after: Position | None, *, over_gaps: bool, limit: int | None = None
) -> NextChunks:
    """Returns the next chunks of the selection, which has no hours, after `after`; at most `limit`. With `over_gaps`
    they may come after recorded losses. Raises SourceError if the stream cannot be asked where the selected times
    are."""
    return selected.of_one_state(partial(_next_chunks, selected, after, over_gaps=over_gaps, limit=limit))


def _next_chunks(
    selected: ArchiveSelection, after: Position | None, *, over_gaps: bool, limit: int | None
) -> NextChunks:
    catalog, archive, selection = selected.workspace.catalog, selected.archive, selected.selection
    found = catalog.chunks.select(
        archive, time_range=selection.times, seqs=selection.sequences, with_subjects=True, after=after, limit=limit
    )
    spans = list(_spans(selected, after, found, cut=limit is not None and len(found) == limit))
    barriers: list[tuple[int, int, SeqRange | None]] = []  # where, and what was lost there
    for number, (life, span) in enumerate(spans):
        barriers += [(number, r.first, None) for r in catalog.coverage.missing(archive, life, span)]
        if over_gaps:
            continue
        for gap in catalog.gaps.select(archive, incarnation=life, within=span):
            # A chunk that was retired before the read began is no loss: it was retired on purpose.
            if gap.is_loss or (gap.reason in REMOVED and after is not None):
                barriers += [(number, r.first, r) for r in clipped(gap.ranges, span)]
        # What a chunk lost before the position was read when the chunk still had it, or was passed over.
        begin = after[1] + 1 if after and after[0] == life else 1
        ahead = clipped([selection.sequences or SeqRange(1, MAX_SEQUENCE)], SeqRange(begin, MAX_SEQUENCE))
        for chunk in found:
            if chunk.meta.incarnation == life and chunk.meta.lost:
                (absent,) = catalog.chunks.absent_ranges([chunk.id])
                barriers += [(number, r.first, r) for part in ahead for r in clipped(absent, part)]
    if not barriers:
        return NextChunks(found)
    barriers.sort(key=lambda barrier: barrier[:2])
    lives = {life: number for number, (life, _) in enumerate(spans)}
    ends = [(lives[chunk.meta.incarnation], chunk.meta.covers.last) for chunk in found]
    taken = tuple(chunk for chunk, end in zip(found, ends, strict=True) if end < barriers[0][:2])
    if taken or barriers[0][2] is None:
        return NextChunks(taken, is_open=not taken)
    return NextChunks((), tuple(r for _, _, r in barriers if r is not None))


def is_over(selected: ArchiveSelection) -> bool:
    """True if the selection has an end, and the stream's messages of it are captured: what `ahead` finds after this
    answer is then complete. Raises SourceError."""
    workspace, selection = selected.workspace, selected.selection
    newest = workspace.catalog.coverage.all(selected.archive)[-1]
    if selection.sequences and newest.last >= selection.sequences.last:
        return True
    if selection.to_ns is None:
        return False
    boundary = Boundary.now(selected)
    if ask_clocks(workspace, boundary.stream).earliest_ns < selection.to_ns + CLOCKS_S * SECOND_NS:
        return False
    if boundary.stream is not None and boundary.stream.incarnation != newest.incarnation:
        return False  # it was made again, and a capture has yet to adopt it
    return not any(boundary.uncaptured())


def _spans(
    selected: ArchiveSelection, after: Position | None, found: Sequence[Chunk], *, cut: bool
) -> Iterator[tuple[Incarnation, SeqRange]]:
    """The sequences of each incarnation that must be accounted for before its chunks can be taken. `cut`: there may be
    more chunks than `found`."""
    workspace, selection, bounds = selected.workspace, selected.selection, _TimeBounds(selected)
    coverages = workspace.catalog.coverage.all(selected.archive)
    for number, coverage in enumerate(coverages):
        life = coverage.incarnation
        if after and life.created_ns < after[0].created_ns:
            continue
        own = [chunk.meta.covers for chunk in found if chunk.meta.incarnation == life]
        if cut and own and found[-1].meta.incarnation == life:
            last = own[-1].last
        elif number < len(coverages) - 1:
            last = _last_seen(workspace, coverage)
        else:
            last = bounds.last(coverage)
        begun = after is not None and life == after[0]
        first = after[1] + 1 if after and begun else bounds.first(coverage, found)
        first, last = (min(first, own[0].first), max(last, own[-1].last)) if own else (first, last)
        if selection.sequences:
            first, last = max(first, selection.sequences.first), min(last, selection.sequences.last)
        if own or first <= last:
            yield life, SeqRange(first, last)
        if cut and found[-1].meta.incarnation == life:
            return


def _last_seen(workspace: Workspace, coverage: Coverage) -> int:
    """The last sequence of an incarnation that has ended, as far as it was ever seen."""
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    return max(coverage.last, state.last_seq if state else 0)


class _TimeBounds:
    """The sequences between which the selected times lie. The stream is asked once, and only where chunks cannot
    say."""

    def __init__(self, selected: ArchiveSelection) -> None:
        self._selected = selected
        self._workspace, self._archive, self._selection = selected.workspace, selected.archive, selected.selection

    def first(self, coverage: Coverage, found: Sequence[Chunk]) -> int:
        """Returns the first sequence that may be selected; after all archived ones where only chunks can say: the
        stream is gone, or the hours up to the first of the chunks are sealed."""
        from_ns = self._selection.from_ns
        # A stream that was restored has messages that are older than itself.
        begin_ns = min(coverage.incarnation.created_ns, LAST_NS if coverage.first_ns is None else coverage.first_ns)
        if from_ns is None or begin_ns >= from_ns:
            return coverage.start
        if found and found[0].meta.incarnation == coverage.incarnation:
            first, last = sorted((hour_of(from_ns), found[0].meta.hour))
            if self._workspace.catalog.hours.are_sealed(self._archive, first, last):
                return coverage.last + 1
        if self._stream is None or self._stream.incarnation != coverage.incarnation:
            return coverage.last + 1
        return max(coverage.start, first_at(self._workspace.link, self._archive.spec, from_ns))

    def last(self, coverage: Coverage) -> int:
        """The last archived sequence that may be selected; 0 if the stream is gone, and only chunks can say. In a
        sealed hour it is where the first later chunk begins: what was lost right before that one is named."""
        catalog, to_ns = self._workspace.catalog, self._selection.to_ns
        if to_ns is None:
            return coverage.last
        hour = hour_of(to_ns - 1)
        if catalog.hours.are_sealed(self._archive, hour, hour):
            later = catalog.points.first_at(self._archive, to_ns)
            if later is not None and later.meta.incarnation == coverage.incarnation:
                covers = later.meta.covers
                return covers.last if later.meta.first_ns < to_ns else covers.first - 1
        if ask_clocks(self._workspace, self._stream).earliest_ns < to_ns:
            return coverage.last
        if self._stream is None or self._stream.incarnation != coverage.incarnation:
            return 0
        return min(coverage.last, first_at(self._workspace.link, self._archive.spec, to_ns) - 1)

    @cached_property
    def _stream(self) -> StreamState | None:
        return Boundary.now(self._selected).stream
