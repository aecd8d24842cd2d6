"""Pages of a column, looked at before they are decompressed: a column of a few KB may claim to hold gigabytes.

Invariant: no page is decoded that takes more memory than its row group may have. The sizes come from the headers of the
pages themselves, because the decoder believes these and not the footer.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.chunks.columns import CHUNK_BYTES, MOST_BYTES
from nats3_dagster.chunks.footer import DAMAGED, FOREIGN, Footer
from nats3_dagster.chunks.sized_file import SizedFile
from nats3_dagster.errors import ChunkError

# Bytes: what a column has beside its values, such as the levels of nulls.
_SLACK: Final = 64 << 10
# Bytes of a row in a column, beside its text: a number or a length, and once more in a dictionary.
_ROW: Final = 32
# Bytes that values may take which share their bytes with others: of a dictionary, or front-coded.
_MOST_SHARED: Final = 256 << 20
_NUMBERS: Final = ("seq", "time", "time_ns")
_NOT_SHARED: Final = (*_NUMBERS, "subject")

_DICTIONARY_PAGE: Final = 2
_DELTA_BYTE_ARRAY: Final = 7
# The fields of a PageHeader of Parquet's Thrift definition: their numbers, a hexadecimal digit for each structure.
_TYPE, _UNCOMPRESSED, _COMPRESSED = 0x1, 0x2, 0x3
# Number of values and their encoding, by the type of the page: data, dictionary, data of version 2.
_VALUES: Final = {0: (0x51, 0x52), _DICTIONARY_PAGE: (0x71, 0x72), 3: (0x81, 0x84)}
_HIGHEST_FIELD: Final = 15
_DEEPEST: Final = 3


class SharedSubjects(Exception):
    """The subjects of a row group may take more than it may have: which of its dictionary each row has is to be looked
    at before they are decoded."""


class CheckedColumns(SizedFile):
    """The columns of row groups, each looked at before Arrow decodes it."""

    def __init__(self, source: pa.NativeFile, size: int) -> None:
        super().__init__(size)
        self._source = source
        self._columns: Iterator[str] = iter(())
        self._rows = 0
        self._footer: Footer | None = None
        # Whether Arrow leaves subjects as dictionaries.
        self.keeps_dictionary = False
        # Whether the subjects that were read last have room, whichever of its dictionary each row has.
        self.has_room = False

    def expect(self, columns: Sequence[str], rows: int, footer: Footer) -> None:
        """The columns that are read next, one by one: of a row group with these rows."""
        self._columns, self._rows, self._footer = iter(columns), rows, footer

    def read(self, size: int = -1) -> pa.Buffer:
        self._source.seek(self._at)
        data = self._source.read_buffer(size)
        self._at += data.size
        column = next(self._columns, None)
        if column is None or self._footer is None:
            raise ChunkError("The chunk is read where it has no column", DAMAGED)
        dictionary = check_pages(memoryview(data).cast("B"), column, self._rows, self._footer)
        if column == "subject":
            self.has_room = _have_room(dictionary, self._rows, self._footer)
            if not (self.has_room or self.keeps_dictionary):
                raise SharedSubjects
        return data


def check_pages(data: memoryview, column: str, rows: int, footer: Footer) -> int:
    """Raises ChunkError where the pages of a column of a row group with these rows expand to more than it may have.
    `data`: all bytes of the column. Returns the bytes of its dictionary."""
    most = _most(column, rows, footer)
    size = values = dictionary = expanded = 0
    is_shared = column not in _NOT_SHARED
    for is_dictionary, page_size, page_values, encoding in _pages(data):
        size += page_size
        if is_dictionary:
            dictionary += page_size
            continue
        values += page_values
        if size > most or values > rows:
            break
        shared = page_size if encoding == _DELTA_BYTE_ARRAY else 0
        if is_shared and dictionary > shared:
            shared = dictionary
        expanded += shared * page_values
        if expanded > _MOST_SHARED:
            raise _too_much(f"the values of its column {column} may take {expanded:,} bytes")
    if size > most:
        raise _too_much(f"its column {column} takes {size:,} bytes when it is read, and may take {most:,}")
    if values > rows:
        raise _too_much(f"its column {column} has {values:,} values for {rows:,} messages")
    return dictionary


def _have_room(dictionary: int, rows: int, footer: Footer) -> bool:
    """True if subjects with a dictionary of this size have room, whichever of it each row has."""
    return dictionary * rows <= _most("subject", rows, footer)


def check_subject_text(subjects: pa.ChunkedArray, footer: Footer) -> None:
    """Raises ChunkError where the subjects of a row group, decoded from their dictionaries, would take more than it may
    have."""
    most = _most("subject", len(subjects), footer)
    size = 0
    for part in subjects.chunks:
        lengths = pc.binary_length(part.dictionary).to_numpy()
        if int(lengths.max(initial=0)) * len(subjects) > most:
            lengths = lengths[part.indices.to_numpy()]
            size += int(lengths.sum(dtype=np.int64))
    if size > most:
        raise _too_much(f"its subjects take {size:,} bytes, and may take {most:,}")


def _most(column: str, rows: int, footer: Footer) -> int:
    """Bytes that a column of a row group may have."""
    text = 0 if column in _NUMBERS else min(footer.payload_bytes, CHUNK_BYTES if rows > 1 else MOST_BYTES)
    # The text of a subject has up to three characters for a byte.
    return _ROW * rows + _SLACK + text * (3 if column == "subject" else 1)


def _too_much(what: str) -> ChunkError:
    return ChunkError(f"The chunk expands to more than its messages have: {what}", FOREIGN)


def _pages(data: memoryview) -> Iterator[tuple[bool, int, int, int]]:
    """Yields of each page, by its header: True if it is a dictionary, its bytes when it is decompressed, the number of
    its values, their encoding. Raises ChunkError."""
    at, end = 0, len(data)
    try:
        while at < end:
            at, fields = _header(data, at)
            at += fields[_COMPRESSED]
            size, kind = fields[_UNCOMPRESSED], fields[_TYPE]
            if fields[_COMPRESSED] < 0 or size < 0 or at > end:
                raise ValueError("a page does not lie in its column")
            if kind in _VALUES:
                values, encoding = _VALUES[kind]
                if fields[values] < 0:
                    raise ValueError("a page has less than no values")
                yield kind == _DICTIONARY_PAGE, size, fields[values], fields[encoding]
    except (IndexError, KeyError, ValueError) as error:
        raise ChunkError("The pages of the chunk cannot be told apart", DAMAGED) from error


def _header(data: memoryview, at: int) -> tuple[int, dict[int, int]]:
    """Returns the end of a header that begins at `at`, and its integers of 32 bits, by their fields.

    Thrift's compact protocol. Types of fields: 1 and 2 are true and false, 3 a byte, 4 to 6 integers, 7 a double, 8
    bytes, 12 a structure. It refuses what decoders take for another number, because they cut it to its type, and what
    no header has. Fields ascend, so none is there twice."""
    fields: dict[int, int] = {}
    outer: list[int] = []  # the fields of the structures around this one
    field = 0
    while True:
        byte = data[at]
        at += 1
        if not byte:
            if not outer:
                return at, fields
            field = outer.pop()
            continue
        step, kind = byte >> 4, byte & 15
        if not step or (field & 15) + step > _HIGHEST_FIELD:
            raise ValueError("a header of a page has a field that none has")
        field += step
        if kind in (4, 5, 6, 8):
            byte = data[at]
            at += 1
            value, shift = byte & 127, 7
            while byte > 127:
                if shift > 63:
                    raise ValueError("a number without an end")
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
            if kind == 8:
                at += value
            elif kind == 5:
                if value >> 32:
                    raise ValueError("a number has more bits than its type")
                fields[field] = (value >> 1) ^ -(value & 1)
        elif kind == 12 and len(outer) < _DEEPEST:
            outer.append(field)
            field <<= 4
        elif kind in (3, 7):
            at += 1 if kind == 3 else 8
        elif kind not in (1, 2):
            raise ValueError("a header of a page has a field that none has")
