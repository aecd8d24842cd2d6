"""Extent: how many messages a selection takes of each chunk, and between which sequences and times they lie.

Only the catalog is asked: where it does not know exactly, the most that can be is given.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.hours import MINUTE_NS, hour_start
from nats3_dagster.model import Chunk, ChunkMeta, Selection, SeqRange, clipped
from nats3_dagster.subjects import encoded


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
    """The bounds of the selected messages: none lies outside. None where the catalog does not know."""

    first_seq: int | None = None
    last_seq: int | None = None
    # Store times, both included.
    first_ns: int | None = None
    last_ns: int | None = None


@dataclass(slots=True)
class Extent:
    """The sums of the parts of chunks: they are added in the order of the stream."""

    selection: Selection
    chunks: int = 0
    # Messages that are selected; an upper bound unless `is_exact`.
    messages: int = 0
    is_exact: bool = True
    # Bytes of their subjects, header blocks and payloads; an upper bound unless `is_size_exact`.
    payload_bytes: int = 0
    is_size_exact: bool = True
    # True if times and sequences take all of each chunk, so that its counts by subject are those of the selection.
    is_uncut: bool = True
    # Header block and payload of the largest message of the chunks, selected or not.
    largest_bytes: int = 0
    # Chunks whose subjects are not counted.
    uncounted: int = 0
    # Of the chunks that are, or may be, selected whole: how many, their messages, and their hours.
    whole_chunks: int = 0
    whole_messages: int = 0
    whole_is_exact: bool = True
    whole_hours: set[str] = field(default_factory=set[str])
    # Of the chunks with a selected message: the first and the last sequence, and the first and the last store time.
    _covers: SeqRange | None = None
    _times: tuple[int, int] | None = None

    def add(self, part: SelectedPart) -> None:
        """Add the part of one chunk."""
        meta = part.chunk.meta
        self._add(part.messages, part.payload_bytes, meta.largest_bytes, meta.covers, (meta.first_ns, meta.last_ns))
        self.chunks += 1
        self.uncounted += meta.subjects is None
        self.is_exact = self.is_exact and part.is_exact
        self.is_uncut = self.is_uncut and not is_cut(meta, self.selection)
        self.is_size_exact = self.is_size_exact and part.is_whole and part.is_exact
        if part.is_whole:
            self.whole_chunks += 1
            self.whole_messages += part.messages
            self.whole_is_exact = self.whole_is_exact and part.is_exact
            self.whole_hours.add(meta.hour)

    def add_whole(self, hour: HourOfChunks) -> None:
        """Add chunks of an hour that are selected whole."""
        self._add(hour.messages, hour.payload_bytes, hour.largest_bytes, hour.covers, (hour.first_ns, hour.last_ns))
        self.chunks += hour.chunks
        self.uncounted += hour.uncounted
        self.whole_chunks += hour.chunks
        self.whole_messages += hour.messages
        self.whole_hours.add(hour.hour)

    def _add(self, messages: int, size: int, largest: int, covers: SeqRange, times: tuple[int, int]) -> None:
        self.messages += messages
        self.payload_bytes += size
        self.largest_bytes = max(self.largest_bytes, largest)
        if messages:
            self._covers = SeqRange(self._covers.first if self._covers else covers.first, covers.last)
            first_ns, last_ns = self._times or times
            self._times = min(first_ns, times[0]), max(last_ns, times[1])

    @property
    def times(self) -> tuple[int, int] | None:
        """The first and the last store time of a message that may be selected; None without one."""
        if self._times is None or self.selection.times is None:
            return self._times
        return max(self._times[0], self.selection.times[0]), min(self._times[1], self.selection.times[1] - 1)

    @property
    def bounds(self) -> Bounds:
        """The bounds of the selection within the chunks."""
        if self._covers is None or self.times is None:
            return Bounds()
        seqs, covers = self.selection.sequences, self._covers
        # Only the end of a chunk has a time in the catalog.
        cut_first, cut_last = bool(seqs and seqs.first > covers.first), bool(seqs and seqs.last < covers.last)
        return Bounds(
            seqs.first if seqs and cut_first else covers.first,
            seqs.last if seqs and cut_last else covers.last,
            None if cut_first else self.times[0],
            None if cut_last else self.times[1],
        )


def is_cut(meta: ChunkMeta, selection: Selection) -> bool:
    """True if the times or the sequences of the selection do not take all of the chunk."""
    return cuts_sequences(meta, selection) or _cuts_times(meta, selection)


def cuts_sequences(meta: ChunkMeta, selection: Selection) -> bool:
    """True if the sequences of the selection do not take all of the chunk."""
    seqs, covered = selection.sequences, meta.covers
    return seqs is not None and not seqs.first <= covered.first <= covered.last <= seqs.last


def part_of(chunk: Chunk, selection: Selection) -> SelectedPart:
    """Returns the selected part of a chunk with its counts by subject, by the chunk's own metadata."""
    meta, counts = chunk.meta, list(_counts(chunk.meta, selection))
    # Each condition by itself: together they take no more than the one that takes the fewest.
    messages, exact = min(counts, default=(meta.messages, True), key=lambda count: count[0])
    exact = (exact and len(counts) <= 1) or not messages
    subjects = [s for s in meta.subjects or () if selection.selects_subject(s)]
    # The largest message's size is known without its subject.
    longest = max((len(encoded(s)) for s in subjects), default=meta.payload_bytes)
    size = meta.payload_bytes if messages == meta.messages else messages * (meta.largest_bytes + longest)
    return SelectedPart(chunk, messages, exact, min(size, meta.payload_bytes))


def _counts(meta: ChunkMeta, selection: Selection) -> Iterator[tuple[int, bool]]:
    """Yields for each condition that cuts the chunk the maximum of its messages, and whether that is exact."""
    if cuts_sequences(meta, selection):
        assert selection.sequences
        (within,) = clipped([meta.covers], selection.sequences) or [SeqRange(1, 0)]
        if meta.deleted is None and meta.absent:
            yield min(within.size, meta.messages), False
        else:
            yield within.size - sum(r.size for r in clipped(meta.deleted or (), within)), True
    if selection.times and _cuts_times(meta, selection):
        yield _in_time(meta, *selection.times)
    if not selection.selects_all_subjects:
        if meta.subjects is None:
            yield meta.messages, False
        elif (taken := sum(n for s, n in meta.subjects.items() if selection.selects_subject(s))) < meta.messages:
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


def _cuts_times(meta: ChunkMeta, selection: Selection) -> bool:
    return selection.times is not None and not (
        selection.times[0] <= meta.first_ns <= meta.last_ns < selection.times[1]
    )
