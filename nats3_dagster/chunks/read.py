"""Reading a chunk: proof first, then its messages.

Invariant: a chunk is read exactly as it was written, or ChunkError is raised. Whatever bytes come in, no other error
goes out and no message is left out silently.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.chunks.columns import SCHEMA, body_sizes, check_subjects, payload_sizes
from nats3_dagster.chunks.footer import DAMAGED, Footer, RowGroup, read_footer
from nats3_dagster.chunks.footer_cache import ParsedFooter
from nats3_dagster.chunks.group_subjects import may_have_any
from nats3_dagster.chunks.meta import COUNTED, RowCounts, meta_of
from nats3_dagster.chunks.pages import CheckedColumns, SharedSubjects, check_subject_text
from nats3_dagster.chunks.sized_file import SizedFile
from nats3_dagster.errors import ChunkError, StoreError
from nats3_dagster.model import ChunkMeta, SeqRange
from nats3_dagster.model.messages import MESSAGES

# Compared with what the catalog expects. Not the bucket: an archive may be read from a copy of its bucket. Not
# `deleted` and `subjects`: the footer does not hold them, and the SHA-256 proves the columns they come from.
_IDENTITY = (
    "archive",
    "incarnation",
    "hour",
    "covers",
    "messages",
    "payload_bytes",
    "largest_bytes",
    "absent_reason",
    "first_ns",
    "last_ns",
)


# Given what reading a row group failed of, another reader of the same chunk; None if there is none.
Otherwise = Callable[[StoreError], "ChunkReader | None"]


def open_chunk(data: bytes | memoryview | pa.Buffer, expect: ChunkMeta | None = None) -> "ChunkReader":
    """A reader of a whole object's bytes, whose footer is proven.

    With `expect` size, SHA-256 and identity are proven too, so nothing can be wrong any more. Without it, a damaged
    page is found when its messages are read (see `ChunkReader.verify`). Raises ChunkError."""
    buffer = pa.py_buffer(data)
    sha256 = hashlib.sha256(buffer).hexdigest()
    if expect is not None:
        if buffer.size != expect.stored_bytes:
            raise ChunkError(f"{expect.key} has {buffer.size} bytes and should have {expect.stored_bytes}", DAMAGED)
        if sha256 != expect.sha256:
            raise ChunkError(f"{expect.key} has SHA-256 {sha256} and should have {expect.sha256}", DAMAGED)
    with _arrow_errors():
        if buffer[:4].to_pybytes() != b"PAR1":
            raise ChunkError("The object is not Parquet", DAMAGED)
    parsed = parse_footer(buffer, buffer.size)
    reader = open_parsed(parsed, pa.BufferReader(buffer), sha256=sha256, stored_bytes=buffer.size)
    if expect is not None:
        prove_identity(reader.meta, expect)
    return reader


def parse_footer(tail: pa.Buffer, stored_bytes: int) -> ParsedFooter:
    """The footer of an object of `stored_bytes`, proven by its own digest. `tail`: the last bytes of the object, with
    the whole footer among them (see `footer_length`). Raises ChunkError."""
    with _arrow_errors():
        parquet = pq.read_metadata(pa.BufferReader(tail))
        return ParsedFooter(parquet, read_footer(parquet), stored_bytes - footer_length(tail))


def footer_length(tail: pa.Buffer) -> int:
    """Bytes at the end of the object that are Parquet's footer, by its last eight. Raises ChunkError."""
    end = tail[-8:].to_pybytes() if tail.size >= 8 else b""
    if end[4:] != b"PAR1":
        raise ChunkError("The object's end is not that of a Parquet file", DAMAGED)
    return int.from_bytes(end[:4], "little") + 8


def open_parsed(
    parsed: ParsedFooter,
    source: pa.NativeFile,
    *,
    sha256: str,
    stored_bytes: int,
    prepare: Callable[[int, int], object] | None = None,
    otherwise: Otherwise | None = None,
) -> "ChunkReader":
    """A reader that takes each row group, when it is asked for, from the places of `source` where it is. `prepare` is
    called before with where its wanted columns begin and how many bytes they have; `otherwise` with what a row group
    failed of, for another reader of the same chunk.

    `sha256` and `stored_bytes` are those of the whole object, which is not read here: the footer is proven, and each
    row group is when it is read. Raises ChunkError."""
    meta = meta_of(parsed.footer, sha256=sha256, stored_bytes=stored_bytes)
    return ChunkReader(source, parsed, meta, prepare, otherwise)


def prove_identity(meta: ChunkMeta, expect: ChunkMeta) -> None:
    """Raises ChunkError unless a footer's `meta` describes the chunk that the catalog expects."""
    for name in _IDENTITY:
        if getattr(meta, name) != getattr(expect, name):
            raise ChunkError(
                f"{expect.key} has {name} {getattr(meta, name)} and should have {getattr(expect, name)}", DAMAGED
            )


class ChunkReader:
    """The messages of one chunk, read from `source` row group by row group.

    `meta` comes from the footer: its `deleted`, `subjects` and `minutes` are None (see `verify`)."""

    def __init__(
        self,
        source: pa.NativeFile,
        parsed: ParsedFooter,
        meta: ChunkMeta,
        prepare: Callable[[int, int], object] | None = None,
        otherwise: Otherwise | None = None,
    ) -> None:
        self._source = source
        self._parsed = parsed
        self._parquet = parsed.parquet
        self._prepare = prepare
        self._otherwise = otherwise
        self._within: SeqRange | None = None
        self.footer = parsed.footer
        # Where Parquet's footer begins in the object.
        self.footer_start = parsed.start
        self.meta = meta

    def group_of(self, seq: int) -> int | None:
        """The index of the row group that may have this sequence; None where no group does."""
        index = bisect_left(self.footer.row_groups, seq, key=lambda group: group.last_seq)
        groups = self.footer.row_groups[index : index + 1]
        return index if groups and groups[0].first_seq <= seq else None

    def may_have(self, index: int, subjects: Iterable[str]) -> bool | None:
        """False if a row group has none of these subjects, as `subjects.decoded` gives them; True if it may have one;
        None if the footer does not say."""
        return may_have_any(self.footer.group_subjects, index, subjects)

    def part(self, seqs: SeqRange) -> "ChunkReader":
        """A reader of the same chunk whose batches have these sequences only."""
        reader = ChunkReader(self._source, self._parsed, self.meta, self._prepare, self._otherwise)
        reader._within = seqs
        return reader

    def span(self, index: int, columns: Sequence[str] = SCHEMA.names) -> tuple[int, int]:
        """Returns the offset in the object of the bytes of a row group from the first to the last of these columns, and
        their number. All columns lie together, `data` last. Raises ChunkError."""
        # Not asked of Parquet's metadata: its classes for Python end the process, uncatchably, where they are damaged.
        probe = _Probe(self.footer_start)
        with _arrow_errors():
            file = pq.ParquetFile(pa.PythonFile(probe, mode="r"), metadata=self._parquet, pre_buffer=False)
            wanted = [name for name in SCHEMA.names if name in columns]
            for name in (wanted[0], wanted[-1]):
                with suppress(_Asked):
                    file.read_row_group(index, columns=[name], use_threads=False)
        if len(probe.asked) != 2:
            raise ChunkError(f"Row group {index} cannot be read", DAMAGED)
        (start, _), (last, length) = probe.asked
        if not 4 <= start <= last < last + length <= self.footer_start:
            raise ChunkError(f"Row group {index} does not lie in the object", DAMAGED)
        return start, last + length - start

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        seqs: SeqRange | None = None,
        times: tuple[int, int] | None = None,
        dictionary: bool = False,
        groups: Collection[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The messages in order, one batch for each row group that has any.

        `columns`: names in the order wanted, by default those of MESSAGES. `seqs`: both ends included. `times`:
        `[from, to)` in nanoseconds. Row groups out of either are not read. `dictionary`: `subject` comes as a
        dictionary array, for work that is done once a subject. `groups`: the row groups that are read, by index. Raises
        ChunkError when a page does not match."""
        if self._within is not None:
            first, last = seqs or self._within
            seqs = SeqRange(max(first, self._within.first), min(last, self._within.last))
            if not seqs.size > 0:
                return
        names = list(columns) if columns is not None else MESSAGES.names
        wanted = {*names, "seq", *(["time_ns"] if times else [])}
        ordered = [name for name in SCHEMA.names if name in wanted]
        read_group = self._groups(ordered, dictionary)
        for index, group in enumerate(self.footer.row_groups):
            if seqs is not None and (group.last_seq < seqs.first or group.first_seq > seqs.last):
                continue
            if times is not None and (group.last_ns < times[0] or group.first_ns >= times[1]):
                continue
            if groups is not None and index not in groups:
                continue
            if ordered == ["seq"] and group.is_dense:
                batch = pa.record_batch([np.arange(group.first_seq, group.last_seq + 1)], schema=pa.schema([SCHEMA[0]]))
            else:
                batch = read_group(index)
            if seqs is not None:
                numbers = batch.column("seq").to_numpy()
                first = int(np.searchsorted(numbers, max(seqs.first, group.first_seq)))
                end = int(np.searchsorted(numbers, min(seqs.last, group.last_seq), side="right"))
                batch = batch.slice(first, end - first)
            if times is not None and not (times[0] <= group.first_ns and group.last_ns < times[1]):
                stamps = batch.column("time_ns").to_numpy()
                batch = batch.filter(pa.array((stamps >= times[0]) & (stamps < times[1])))
            if batch.num_rows:
                yield batch.select(names)

    def group(self, index: int, columns: Sequence[str], *, dictionary: bool) -> pa.RecordBatch:
        """A row group with these columns, which are in the order of SCHEMA; `dictionary` as `batches` has it. Raises
        ChunkError."""
        return self._groups(columns, dictionary)(index)

    def _groups(self, columns: Sequence[str], dictionary: bool) -> Callable[[int], pa.RecordBatch]:
        """Reads row groups by their index, and from elsewhere what is missing or damaged here."""
        checked = CheckedColumns(self._source, self.footer_start)
        # No filter of subjects stands for many subjects: then another file need not be opened.
        checked.keeps_dictionary = dictionary or not any(self.footer.group_subjects)
        file = self._file(checked)

        def read(index: int) -> pa.RecordBatch:
            nonlocal file
            if self._prepare is not None:
                self._prepare(*self.span(index, columns))
            try:
                return self._read(file, checked, index, columns, dictionary)
            except SharedSubjects:
                # The other row groups will be as this one.
                checked.keeps_dictionary = True
                file = self._file(checked)
                return self._read(file, checked, index, columns, dictionary)

        def read_or_otherwise(index: int) -> pa.RecordBatch:
            try:
                return read(index)
            except StoreError as error:
                if self._otherwise is None or (other := self._otherwise(error)) is None:
                    raise
                return other.group(index, columns, dictionary=dictionary)

        return read_or_otherwise

    def _file(self, checked: CheckedColumns) -> pq.ParquetFile:
        with _arrow_errors():
            return pq.ParquetFile(
                pa.PythonFile(checked, mode="r"),
                metadata=self._parquet,
                read_dictionary=["subject"] if checked.keeps_dictionary else None,
                page_checksum_verification=True,
                pre_buffer=False,
            )

    def _read(
        self, file: pq.ParquetFile, checked: CheckedColumns, index: int, columns: Sequence[str], dictionary: bool
    ) -> pa.RecordBatch:
        """A row group. Raises ChunkError, SharedSubjects."""
        group = self.footer.row_groups[index]
        checked.expect(columns, group.rows, self.footer)
        with _arrow_errors():
            # Not `read_row_group`: it makes room for the number of values in Parquet's footer.
            batches = file.iter_batches(group.rows, [index], list(columns), use_threads=False)
            table = _group_table(batches, group.rows, index)
            if "subject" in columns and checked.keeps_dictionary:
                table = _with_subjects(table, self.footer, dictionary, has_room=checked.has_room)
            return _whole(table, group, index)

    def count(self) -> ChunkMeta:
        """`meta` with nothing left out, by the columns that say it: headers and payloads are not read, and their sizes
        are taken from the footer. Raises ChunkError."""
        counts = RowCounts(self.footer)
        for batch in self.batches(COUNTED):
            counts.add(batch)
        return counts.meta(self.meta.sha256, self.meta.stored_bytes)

    def verify(self) -> ChunkMeta:
        """Read every column of every message and check it against the footer; `meta` with nothing left out.

        This rebuilds the catalog's row from the object alone. Raises ChunkError."""
        counts = RowCounts(self.footer)
        size = largest = 0
        for batch in self.batches(SCHEMA.names):
            check_subjects(batch)
            size += int(payload_sizes(batch).sum())
            largest = max(largest, int(body_sizes(batch).max()))
            counts.add(batch)
            micros = batch.column("time").view(pa.int64()).to_numpy()
            if (micros != batch.column("time_ns").to_numpy() // 1000).any():
                raise ChunkError(f"The columns time and time_ns of {self.meta.key} differ", DAMAGED)
        if (size, largest) != (self.footer.payload_bytes, self.footer.largest_bytes):
            raise ChunkError(f"The messages of {self.meta.key} do not have the sizes that its footer names", DAMAGED)
        return counts.meta(self.meta.sha256, self.meta.stored_bytes)


def _whole(table: pa.Table, group: RowGroup, index: int) -> pa.RecordBatch:
    """The row group as one batch. Raises ChunkError unless it is the one that the footer describes."""
    table.validate(full=True)
    batch = table.combine_chunks().to_batches()[0]
    numbers = batch.column("seq").to_numpy()
    sound = len(numbers) == group.rows and numbers[0] == group.first_seq and numbers[-1] == group.last_seq
    sound = sound and bool((np.diff(numbers) > 0).all())
    if sound and "time_ns" in table.column_names:
        stamps = batch.column("time_ns").to_numpy()
        sound = stamps.min() == group.first_ns and stamps.max() == group.last_ns
    if not sound:
        raise ChunkError(f"Row group {index} does not hold the messages that the footer names", DAMAGED)
    return batch


def _group_table(batches: Iterator[pa.RecordBatch], rows: int, index: int) -> pa.Table:
    """The batches of a row group. Raises ChunkError where it has more rows."""
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        parts.append(batch)
        rows -= batch.num_rows
        if rows < 0:
            break
    if rows or not parts:
        raise ChunkError(f"Row group {index} does not hold the messages that the footer names", DAMAGED)
    return pa.Table.from_batches(parts)


def _with_subjects(table: pa.Table, footer: Footer, dictionary: bool, *, has_room: bool) -> pa.Table:
    """The table with its dictionary of subjects, or with the subjects of it. Raises ChunkError."""
    at = table.column_names.index("subject")
    subjects = table.column(at)
    if not has_room:
        check_subject_text(subjects, footer)
    return table if dictionary else table.set_column(at, SCHEMA.field("subject"), subjects.cast(pa.string()))


class _Asked(Exception):
    """A `_Probe` was read."""


class _Probe(SizedFile):
    """A file that remembers where it was read first, and has nothing."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.asked: list[tuple[int, int]] = []

    def read(self, size: int = -1) -> bytes:
        self.asked.append((self._at, size))
        raise _Asked


@contextmanager
def _arrow_errors() -> Generator[None]:
    """Turns Arrow's many errors about bad bytes into ChunkError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, TypeError, IndexError) as error:
        raise ChunkError(f"The chunk cannot be read: {str(error).splitlines()[0][:200]}", DAMAGED) from error
