"""An archive as a table that DuckDB scans: the catalog decides which chunks are read, their footers which row groups.

Invariant: a scan gives every archived message that its filter takes, or fails. Sequences that were lost and that the
filter may take make it fail, unless it may go over gaps.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.groups import read_groups
from nats3_dagster.archive.selected.uncovered import lost_of_selection, whole_chunks, whole_hours
from nats3_dagster.archive.stored.ranged import RangedChunk
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.chunks import SCHEMA
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import CLOCKS_S, SECOND_NS
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange
from nats3_dagster.model.messages import selected
from nats3_dagster.query.known import extremes_of, knows_extremes, sequences_of
from nats3_dagster.query.result import Scanned
from nats3_dagster.subjects import readable

# A chunk's columns, its hour `YYYY-MM-DD-HH:00`, and the incarnation of the stream as in the keys of chunks.
COLUMNS: Final = pa.schema([*SCHEMA, pa.field("hour", pa.string(), False), pa.field("incarnation", pa.string(), False)])
_OF_CHUNK = ("hour", "incarnation")
# The columns whose bounds are in the footer for each row group.
_OF_GROUP = {"seq", "time", "time_ns"}
# Above this many subjects a chunk is pruned by its smallest and largest subject.
_MOST_SUBJECTS = 64
_CLOCKS_NS = CLOCKS_S * SECOND_NS
# Hour, incarnation, and stored columns of some of their messages.
_Part = tuple[str, Incarnation, pa.RecordBatch]


class ArchiveDataset(ds.Dataset):
    """A dataset whose scans DuckDB asks for with columns and a filter. pyarrow itself cannot scan it."""

    def __init__(
        self,
        selected: ArchiveSelection,
        scanned: Scanned,
        *,
        over_gaps: bool,
        extremes: bool = False,
    ) -> None:
        """`extremes`: the statement asks for nothing but the smallest and largest values of columns."""
        # Not the initializer of Dataset, which makes a dataset of C++.
        self._selected = selected
        self._scanned = scanned
        self._over_gaps = over_gaps
        self._extremes = extremes
        # What the last scan failed of: DuckDB gives its text only.
        self.failure: Exception | None = None

    @property
    def archive(self) -> Archive:
        return self._selected.archive

    @property
    def _selection(self) -> Selection:
        return self._selected.selection

    @property
    def schema(self) -> pa.Schema:
        return COLUMNS

    def scanner(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> "_Scan":
        """A scan of these columns, in this order, of the messages for which the filter is true."""
        names = COLUMNS.names if columns is None else columns
        try:
            if self._extremes and filter is None and self._selection.selects_all_subjects:
                return _Scan(names, filter, self, *self._hours_and_chunks(_stored_of(names)))
            return _Scan(names, filter, self, (), self._pruned(filter))
        except Exception as error:
            self.failure = error
            raise

    @cached_property
    def _whole(self) -> tuple[tuple[Chunk, ...], list[SeqRange]]:
        """The chunks of the selection, and, unless the scan may go over gaps, its lost sequences."""
        if self._over_gaps:
            return self._selected.chunks(), []
        return whole_chunks(self._selected, up_to_now=True)

    @property
    def _chunks(self) -> tuple[Chunk, ...]:
        return self._whole[0]

    @property
    def _lost(self) -> list[SeqRange]:
        return self._whole[1]

    def _pruned(self, filter: pc.Expression | None) -> list[Chunk]:
        """The chunks that may have messages for which the filter is true. Raises OperatorError if messages that it may
        match were lost."""
        if not self._over_gaps and (lost := self._lost_of(filter)):
            raise OperatorError(*lost_of_selection(self.archive, lost))
        chunks = self._selected.with_subjects(self._chunks)
        self._scanned.add(selected=len(chunks))
        if filter is None:
            return list(chunks)
        by_subject = "subject" in _names(filter)
        guarantees = [(at, one) for at, chunk in enumerate(chunks) for one in self._of_chunk(chunk, by_subject)]
        possible = {guarantees[at][0] for at in _possible(filter, [one for _, one in guarantees])}
        return [chunks[at] for at in sorted(possible)]

    def _hours_and_chunks(self, stored: Sequence[str]) -> tuple[list[HourOfChunks], list[Chunk]]:
        """The hours where the catalog knows the smallest and the largest value of each of these columns, and the
        chunks of the others. Raises OperatorError if messages were lost, unless the scan may go over gaps."""
        if self._over_gaps:
            hours, lost = self._selected.hours(), []
        else:
            hours, lost = whole_hours(self._selected)
        if lost:
            raise OperatorError(*lost_of_selection(self.archive, lost))
        self._scanned.add(selected=sum(one.chunks for one in hours))
        asked = {one.hour for one in hours if not knows_extremes(one, stored)}
        others = replace(self._selected, selection=replace(self._selection, hours=tuple(sorted(asked))))
        chunks = others.chunks() if asked else ()
        return [one for one in hours if one.hour not in asked], list(chunks)

    def _of_chunk(self, chunk: Chunk, by_subject: bool) -> list[pc.Expression]:
        """Returns expressions; each selected message of the chunk matches one."""
        meta = chunk.meta
        common = (
            _bounds(meta.covers.first, meta.covers.last, meta.first_ns, meta.last_ns)
            & (pc.field("hour") == meta.hour)
            & (pc.field("incarnation") == meta.incarnation.token)
        )
        subjects = sorted({*_readable(meta.subjects, self._selection)}) if by_subject else []
        if not subjects:
            return [common]
        if len(subjects) <= _MOST_SUBJECTS:
            return [common & (pc.field("subject") == subject) for subject in subjects]
        return [common & (pc.field("subject") >= subjects[0]) & (pc.field("subject") <= subjects[-1])]

    def _lost_of(self, filter: pc.Expression | None) -> list[SeqRange]:
        """The sequences that were lost, and of whose messages the filter may be true."""
        if filter is None:
            return self._lost
        return [self._lost[at] for at in _possible(filter, [self._guarantee(one) for one in self._lost])]

    def _guarantee(self, lost: SeqRange) -> pc.Expression:
        """Returns the expression that each message lost with these sequences matches."""
        in_range = (pc.field("seq") >= lost.first) & (pc.field("seq") <= lost.last)
        if len({chunk.meta.incarnation for chunk in self._chunks}) > 1:
            return in_range  # the range may be of any of them
        before = [chunk for chunk in self._chunks if chunk.meta.covers.first <= lost.first]
        after = [chunk for chunk in self._chunks if chunk.meta.covers.last >= lost.last]
        if before:
            in_range &= _times(from_ns=before[-1].meta.first_ns - _CLOCKS_NS)
        if after:
            in_range &= _times(to_ns=after[0].meta.last_ns + _CLOCKS_NS)
        return in_range

    def batches(
        self,
        hours: Sequence[HourOfChunks],
        chunks: Sequence[Chunk],
        columns: Sequence[str],
        filter: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        """The smallest and largest values of the hours, and the messages of the chunks: one batch for each row group
        that has any."""
        try:
            yield from self._batches(hours, chunks, columns, filter)
        except Exception as error:
            self.failure = error
            raise

    def _batches(
        self,
        hours: Sequence[HourOfChunks],
        chunks: Sequence[Chunk],
        columns: Sequence[str],
        filter: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        names = _names(filter)
        needed = {*columns, *names, *(["subject", "subject_bytes"] if self._selection.subjects else [])}
        stored = _stored_of(needed)
        subjects: dict[str, bool] = {}

        def wanted(one: RangedChunk) -> Sequence[int]:
            self._scanned.add(chunks=1)
            groups = one.parsed.footer.row_groups
            if filter is None or not _OF_GROUP.intersection(names):
                return range(len(groups))
            return _possible(filter, [_bounds(g.first_seq, g.last_seq, g.first_ns, g.last_ns) for g in groups])

        found = chain(_extremes(hours, stored, needed), self._messages(chunks, stored, wanted))
        for hour, incarnation, batch in found:
            rows = selected(batch, self._selection.subjects, subjects, shown=True)
            constants = {"hour": hour, "incarnation": incarnation.token}
            for name in _OF_CHUNK:
                if name in needed:
                    rows = rows.append_column(COLUMNS.field(name), pa.repeat(constants[name], len(rows)))
            table = pa.Table.from_batches([rows])
            if filter is not None:
                table = table.filter(filter)
            yield from table.select(columns).cast(_schema(columns)).to_batches()

    def _messages(
        self, chunks: Sequence[Chunk], stored: Sequence[str], wanted: Callable[[RangedChunk], Sequence[int]]
    ) -> Iterator[_Part]:
        """The stored columns of the chunks. No object is read for what the catalog knows."""
        answers = ((chunk, sequences_of(chunk, stored, self._selection)) for chunk in chunks)
        for is_known, run in groupby(answers, lambda answer: answer[1] is not None):
            if is_known:
                yield from ((*_of(chunk), batch) for chunk, batch in run if batch is not None)
            else:
                read = self._stored((chunk for chunk, _ in run), stored, wanted)
                yield from ((*_of(chunk), batch) for chunk, batch in read)

    def _stored(
        self, chunks: Iterable[Chunk], stored: Sequence[str], wanted: Callable[[RangedChunk], Sequence[int]]
    ) -> Iterator[tuple[Chunk, pa.RecordBatch]]:
        """The stored columns as the objects have them."""
        return read_groups(
            self._selected.workspace,
            chunks,
            stored,
            wanted,
            seqs=self._selection.sequences,
            times=self._selection.times,
            count=lambda length: self._scanned.add(fetched_bytes=length),
        )


class _Scan:
    """The interface that DuckDB takes for a scanner of pyarrow."""

    def __init__(
        self,
        columns: Sequence[str],
        filter: pc.Expression | None,
        table: ArchiveDataset,
        hours: Sequence[HourOfChunks],
        chunks: Sequence[Chunk],
    ) -> None:
        self._columns, self._filter, self._table = list(columns), filter, table
        self._hours, self._chunks = hours, chunks

    @property
    def projected_schema(self) -> pa.Schema:
        return _schema(self._columns)

    def to_reader(self) -> pa.RecordBatchReader:
        batches = self._table.batches(self._hours, self._chunks, self._columns, self._filter)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


def _of(chunk: Chunk) -> tuple[str, Incarnation]:
    return chunk.meta.hour, chunk.meta.incarnation


def _extremes(hours: Sequence[HourOfChunks], stored: Sequence[str], needed: Collection[str]) -> Iterator[_Part]:
    """The smallest and largest values of the hours: of each apart where the hour or the incarnation is needed."""
    for _, run in groupby(hours, lambda one: [getattr(one, name) for name in _OF_CHUNK if name in needed]):
        alike = [*run]
        yield alike[0].hour, alike[0].incarnation, extremes_of(alike, stored)


def _stored_of(names: Collection[str]) -> list[str]:
    """The stored ones of these columns; the cheapest one where none is."""
    return [name for name in SCHEMA.names if name in names] or ["seq"]


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([COLUMNS.field(name) for name in columns])


def _names(filter: pc.Expression | None) -> list[str]:
    """The columns that a filter uses, and perhaps others: an expression shows its columns in its text alone."""
    words = set(re.findall(r"\w+", "" if filter is None else str(filter)))
    return [name for name in COLUMNS.names if name in words]


def _readable(counts: Mapping[str, int] | None, selection: Selection) -> list[str]:
    """The selected subjects of a chunk as they are in its column `subject`; empty where the catalog has none."""
    return [readable(subject) for subject in counts or () if selection.selects_subject(subject)]


def _bounds(first_seq: int, last_seq: int, first_ns: int, last_ns: int) -> pc.Expression:
    """Returns the condition that no message is out of these sequences and times, ends included."""
    return (pc.field("seq") >= first_seq) & (pc.field("seq") <= last_seq) & _times(first_ns, last_ns)


def _times(from_ns: int | None = None, to_ns: int | None = None) -> pc.Expression:
    """Returns the condition that no message is before `from_ns` or after `to_ns`."""
    bounds = pc.scalar(True)
    if from_ns is not None:
        bounds &= (pc.field("time_ns") >= from_ns) & (pc.field("time") >= _micros(from_ns))
    if to_ns is not None:
        bounds &= (pc.field("time_ns") <= to_ns) & (pc.field("time") <= _micros(to_ns))
    return bounds


def _micros(time_ns: int) -> Any:
    return pa.scalar(time_ns // 1000, pa.int64()).cast(COLUMNS.field("time").type)


def _possible(filter: pc.Expression, guarantees: Sequence[pc.Expression]) -> list[int]:
    """Returns the guarantees, by index, that may be true of a message for which the filter is true."""
    fragments = [
        _FORMAT.make_fragment(str(at), _NOWHERE, partition_expression=given) for at, given in enumerate(guarantees)
    ]
    left = ds.FileSystemDataset(fragments, COLUMNS, _FORMAT, _NOWHERE).get_fragments(filter=filter)
    return sorted(int(fragment.path) for fragment in left)


# Fragments are made for their expressions, and never opened.
_FORMAT, _NOWHERE = ds.ParquetFileFormat(), fs.LocalFileSystem()
