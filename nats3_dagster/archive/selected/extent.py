"""Extent: how many messages a selection takes of each chunk, and between which sequences and times they lie.

Asked of the catalog alone: where it does not know exactly, the most that can be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nats3_dagster.hours import MINUTE_NS, hour_start
from nats3_dagster.model import Chunk, ChunkMeta, Selection, SeqRange, clipped
from nats3_dagster.subjects import encoded
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SelectedPart:
    """The selected part of one chunk."""

    chunk: Chunk
    # Messages that are selected; an upper bound unless `is_exact`.
    messages: int
    is_exact: bool
    # Bytes of their subjects, header blocks and payloads; an upper bound unless `is_whole` and `is_exact`.
    payload_bytes: int

    @property
    def is_whole(self) -> bool:
        """True if every message of the chunk is, or may be, selected."""
        return self.messages == self.chunk.meta.messages


@dataclass(frozen=True, slots=True)
class Bounds:
    """No selected message lies outside; None where the catalog does not know."""

    first_seq: int | None = None
    last_seq: int | None = None
    # Store times, both included.
    first_ns: int | None = None
    last_ns: int | None = None


def extent(workspace: Workspace, chunks: Sequence[Chunk], selection: Selection) -> tuple[SelectedPart, ...]:
    """A part for each of `chunks`, which have their counts by subject (see `lookup.chunks_of`)."""
    return tuple(part_of(_with_deleted(workspace, chunk, selection), selection) for chunk in chunks)


def bounds(parts: Sequence[SelectedPart], selection: Selection) -> Bounds:
    """The bounds of the selection within these parts, in the order of the stream."""
    some = [part for part in parts if part.messages]
    if not some:
        return Bounds()
    first, last, seqs = some[0].chunk.meta, some[-1].chunk.meta, selection.sequences
    first_seq, last_seq, first_ns, last_ns = first.covers.first, last.covers.last, first.first_ns, last.last_ns
    if selection.times:
        first_ns, last_ns = max(first_ns, selection.times[0]), min(last_ns, selection.times[1] - 1)
    # Only the end of a chunk has a time in the catalog.
    cut_first, cut_last = seqs is not None and seqs.first > first_seq, seqs is not None and seqs.last < last_seq
    return Bounds(
        seqs.first if seqs and cut_first else first_seq,
        seqs.last if seqs and cut_last else last_seq,
        None if cut_first else first_ns,
        None if cut_last else last_ns,
    )


def part_of(chunk: Chunk, selection: Selection) -> SelectedPart:
    """Returns the selected part of a chunk with its counts by subject, by the chunk's own metadata."""
    meta, counts = chunk.meta, list(_counts(chunk.meta, selection))
    # Each condition by itself: together they take no more than the one that takes the fewest.
    messages, exact = min(counts, default=(meta.messages, True), key=lambda count: count[0])
    exact = (exact and len(counts) <= 1) or not messages
    subjects = [s for s in meta.subjects or () if selection.takes_subject(s)]
    # The largest message's size is known without its subject.
    longest = max((len(encoded(s)) for s in subjects), default=meta.payload_bytes)
    size = meta.payload_bytes if messages == meta.messages else messages * (meta.largest_bytes + longest)
    return SelectedPart(chunk, messages, exact, min(size, meta.payload_bytes))


def _counts(meta: ChunkMeta, selection: Selection) -> Iterator[tuple[int, bool]]:
    """Yields for each condition that cuts the chunk the maximum of its messages, and whether that is exact."""
    if _cuts(selection.sequences, meta.covers):
        assert selection.sequences
        (within,) = clipped([meta.covers], selection.sequences) or [SeqRange(1, 0)]
        if meta.deleted is None and meta.absent:
            yield min(within.size, meta.messages), False
        else:
            yield within.size - sum(r.size for r in clipped(meta.deleted or (), within)), True
    if selection.times and not selection.times[0] <= meta.first_ns <= meta.last_ns < selection.times[1]:
        yield _in_time(meta, *selection.times)
    if selection.subjects and ">" not in selection.subjects:
        if meta.subjects is None:
            yield meta.messages, False
        elif (taken := sum(n for s, n in meta.subjects.items() if selection.takes_subject(s))) < meta.messages:
            yield taken, True


def _in_time(meta: ChunkMeta, from_ns: int, to_ns: int) -> tuple[int, bool]:
    """Counts by the messages of each minute; a minute that the time cuts may give all of its messages or none."""
    if meta.minutes is None:
        return meta.messages, False
    start, messages, exact = hour_start(meta.hour), 0, True
    for minute, count in enumerate(meta.minutes):
        # The first and last minute also count what a clock that stepped left outside of the hour.
        first_ns = meta.first_ns if minute == 0 else max(start + minute * MINUTE_NS, meta.first_ns)
        last_ns = meta.last_ns if minute == 59 else min(start + (minute + 1) * MINUTE_NS - 1, meta.last_ns)
        if count and first_ns < to_ns and last_ns >= from_ns:
            messages += count
            exact = exact and from_ns <= first_ns and last_ns < to_ns
    return messages, exact


def _cuts(seqs: SeqRange | None, covered: SeqRange) -> bool:
    return seqs is not None and not seqs.first <= covered.first <= covered.last <= seqs.last


def _with_deleted(workspace: Workspace, chunk: Chunk, selection: Selection) -> Chunk:
    """The chunk with its deleted sequences, if a sequence range cuts it: two chunks at most of each incarnation."""
    if not _cuts(selection.sequences, chunk.meta.covers) or not chunk.meta.absent:
        return chunk
    return workspace.catalog.chunks.find(chunk.id) or chunk  # retired meanwhile: recording the replay finds that out
