"""Held: where the chunks that a selection takes lie, and which of them may have lost messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.hours import hour_start, hours_between
from nats3_dagster.model import Chunk, Incarnation, SeqRange


@dataclass(frozen=True, slots=True)
class Held:
    """Facts about the chunks in the hours, times and sequences of a selection, whatever their subjects."""

    # For each chunk, or all of an hour: incarnation, hour, first and last sequence. In the order of the stream.
    spans: Sequence[tuple[Incarnation, str, SeqRange]] = ()
    # Ids of chunks with absent sequences that may have been lost.
    lossy: Mapping[Incarnation, Sequence[int]] = field(default_factory=dict[Incarnation, Sequence[int]])

    @classmethod
    def of_chunks(cls, chunks: Iterable[Chunk]) -> Self:
        metas = [(chunk.id, chunk.meta) for chunk in chunks]
        lossy: dict[Incarnation, list[int]] = {}
        for number, meta in metas:
            if meta.lost:
                lossy.setdefault(meta.incarnation, []).append(number)
        return cls([(meta.incarnation, meta.hour, meta.covers) for _, meta in metas], lossy)

    @classmethod
    def of_hours(cls, hours: Iterable[HourOfChunks]) -> Self:
        hours = tuple(hours)
        lossy: dict[Incarnation, list[int]] = {}
        for one in hours:
            if one.lossy:
                lossy.setdefault(one.incarnation, []).extend(one.lossy)
        return cls([(one.incarnation, one.hour, one.covers) for one in hours], lossy)

    def hours_of(self, incarnation: Incarnation) -> set[str]:
        return {hour for life, hour, _ in self.spans if life == incarnation}

    def runs(self, hours: Sequence[str]) -> Iterator[tuple[Incarnation, SeqRange]]:
        """The sequence ranges that a selection of these hours spans: one for each incarnation, or one for each run of
        selected hours. An hour that was selected and has no chunk joins its neighbours: what lies between them must be
        covered."""
        wanted = set(hours)
        previous: tuple[Incarnation, str] | None = None
        first = last = 0
        for life, hour, covers in self.spans:
            joined = previous is not None and previous[0] == life
            if joined and previous is not None and wanted:
                joined = wanted.issuperset(hours_between(hour_start(previous[1]), hour_start(hour)))
            if previous is not None and not joined:
                yield previous[0], SeqRange(first, last)
            first, last = (first, max(last, covers.last)) if joined else covers
            previous = life, hour
        if previous is not None:
            yield previous[0], SeqRange(first, last)
