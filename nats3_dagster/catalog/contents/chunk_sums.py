"""Sums of the chunks that a selection takes, by hour: what a plan needs of them without a row for each.

Subjects are those of the chunks, whether the selection takes them or not.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from nats3_dagster.catalog.contents.subjects import from_stored
from nats3_dagster.catalog.rows import CoverageRow
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import LOSSES, Archive, Incarnation, Selection, SeqRange


@dataclass(frozen=True, slots=True)
class HourOfChunks:
    """The selected chunks of an hour that lie within the times and sequences of the selection, or those that these
    cut."""

    incarnation: Incarnation
    hour: str
    is_cut: bool
    chunks: int
    messages: int
    # Sequences that they cover and have no message of.
    absent: int
    # Subjects, header blocks and payloads of all of them; header block and payload of the largest message.
    payload_bytes: int
    largest_bytes: int
    # Chunks whose subjects are not counted.
    uncounted: int
    # From the first sequence of the chunks to the last; the smallest and the largest store time.
    covers: SeqRange
    first_ns: int
    last_ns: int
    # Ids of the chunks with absent sequences that may have been lost.
    lossy: tuple[int, ...]


class _HourRow(NamedTuple):
    hour: str
    is_cut: bool
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    largest_bytes: int
    uncounted: int
    first_seq: int
    last_seq: int
    first_ns: int
    last_ns: int
    lossy: list[int]

    def of(self, incarnation: Incarnation) -> HourOfChunks:
        return HourOfChunks(
            incarnation,
            self.hour,
            self.is_cut,
            self.chunks,
            self.messages,
            self.absent,
            self.payload_bytes,
            self.largest_bytes,
            self.uncounted,
            SeqRange(self.first_seq, self.last_seq),
            self.first_ns,
            self.last_ns,
            tuple(self.lossy),
        )


class _SubjectRow(NamedTuple):
    subject: str
    messages: int


class ChunkSums:
    """Add up the live chunks in the hours, times and sequences of a selection."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def hours(self, archive: Archive, selection: Selection) -> tuple[HourOfChunks, ...]:
        """The hours that have some, in the order of the stream."""
        found: list[HourOfChunks] = []
        with self._session.reading() as sql:
            for life, values in _within(sql, archive, selection):
                for row in sql.rows(_HourRow, "sum_chunks", losses=sorted(LOSSES), **values):
                    found.append(row.of(life))
        return tuple(found)

    def ids(self, archive: Archive, selection: Selection) -> "array[int]":
        """The ids of the chunks in the order of the stream: 8 bytes each."""
        ids = array("q")
        with self._session.reading() as sql:
            for _, values in _within(sql, archive, selection):
                ids.extend(sql.values(int, "chunk_ids", **values))
        return ids

    def subjects(self, archive: Archive, selection: Selection) -> dict[str, int]:
        """The counted subjects of the chunks, each with the messages of all of these."""
        sums: dict[str, int] = {}
        with self._session.reading() as sql:
            for _, values in _within(sql, archive, selection):
                for row in sql.rows(_SubjectRow, "sum_subjects", **values):
                    subject = from_stored(row.subject)
                    sums[subject] = sums.get(subject, 0) + row.messages
        return sums


def _within(sql: Statements, archive: Archive, selection: Selection) -> Iterator[tuple[Incarnation, dict[str, Any]]]:
    """The archive's incarnations, oldest first, each with the values of a statement's parameters."""
    first_ns, end_ns = selection.times or (None, None)
    first_seq, last_seq = selection.sequences or (None, None)
    for covered in sql.rows(CoverageRow, "coverages", archive=archive.id):
        yield (
            covered.incarnation,
            {
                "archive": archive.id,
                "incarnation": covered.incarnation_id,
                "hours": [*selection.hours] or None,
                "first_ns": first_ns,
                "end_ns": end_ns,
                "first_seq": first_seq,
                "last_seq": last_seq,
            },
        )
