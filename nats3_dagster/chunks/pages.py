"""Pages of a column, looked at before they are decompressed: a column of a few KB may claim to hold gigabytes.

Invariant: no page is decoded that takes more memory than its row group may have. The sizes come from the headers of the
pages themselves, because the decoder believes these and not the footer.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.chunks.columns import CHUNK_BYTES, MOST_BYTES
from nats3_dagster.chunks.footer import FOREIGN, Footer
from nats3_dagster.errors import ChunkError

# Bytes: what a column has beside its values, such as the levels of nulls.
_SLACK: Final = 64 << 10
# Bytes of a row in a column, beside its text: a number or a length, and once more in a dictionary.
_ROW: Final = 32
# Bytes that values may take which share their bytes with others: of a dictionary, or front-coded.
_MOST_SHARED: Final = 256 << 20
_NUMBERS: Final = ("seq", "time", "time_ns")

_DICTIONARY_PAGE: Final = 2
_DELTA_BYTE_ARRAY: Final = 7
# The fields of a PageHeader of Parquet's Thrift definition.
_TYPE, _UNCOMPRESSED, _COMPRESSED = (1,), (2,), (3,)
# Number of values and their encoding, by the type of the page: data, dictionary, data of version 2.
_VALUES: Final = {0: ((5, 1), (5, 2)), _DICTIONARY_PAGE: ((7, 1), (7, 2)), 3: ((8, 1), (8, 4))}


class Page(NamedTuple):
    """The header of a page."""

    is_dictionary: bool
    size: int  # bytes, decompressed
    values: int
    encoding: int


def check_pages(data: memoryview, column: str, rows: int, footer: Footer) -> None:
    """Raises ChunkError where the pages of a column of a row group with these rows expand to more than it may have.
    `data`: all bytes of the column."""
    most = _most(column, rows, footer)
    size = values = dictionary = expanded = 0
    for page in _pages(data):
        size += page.size
        if page.is_dictionary:
            dictionary += page.size
            continue
        values += page.values
        if size > most or values > rows:
            break
        shared = page.size if page.encoding == _DELTA_BYTE_ARRAY else 0
        if column not in (*_NUMBERS, "subject"):
            shared = max(shared, dictionary)
        expanded += shared * page.values
        if expanded > _MOST_SHARED:
            raise _too_much(f"the values of its column {column} may take {expanded:,} bytes")
    if size > most:
        raise _too_much(f"its column {column} takes {size:,} bytes when it is read, and may take {most:,}")
    if values > rows:
        raise _too_much(f"its column {column} has {values:,} values for {rows:,} messages")


def check_subject_text(subjects: pa.ChunkedArray, footer: Footer) -> None:
    """Raises ChunkError where the subjects of a row group, decoded from their dictionaries, would take more than it may
    have."""
    size = 0
    for part in subjects.chunks:
        lengths = pc.binary_length(part.dictionary).to_numpy()
        size += int(lengths[part.indices.to_numpy()].sum(dtype=np.int64))
    most = _most("subject", len(subjects), footer)
    if size > most:
        raise _too_much(f"its subjects take {size:,} bytes, and may take {most:,}")


def _most(column: str, rows: int, footer: Footer) -> int:
    """Bytes that a column of a row group may have."""
    text = 0 if column in _NUMBERS else min(footer.payload_bytes, CHUNK_BYTES if rows > 1 else MOST_BYTES)
    # The text of a subject has up to three characters for a byte.
    return _ROW * rows + _SLACK + text * (3 if column == "subject" else 1)


def _too_much(what: str) -> ChunkError:
    return ChunkError(f"The chunk expands to more than its messages have: {what}", FOREIGN)


def _pages(data: memoryview) -> "list[Page]":
    """The pages, by their headers. Raises ChunkError."""
    pages: list[Page] = []
    at = 0
    try:
        while at < len(data):
            fields: dict[tuple[int, ...], int] = {}
            at = _struct(data, at, (), fields) + fields[_COMPRESSED]
            if fields[_COMPRESSED] < 0 or fields[_UNCOMPRESSED] < 0 or at > len(data):
                raise ValueError("a page does not lie in its column")
            if names := _VALUES.get(fields[_TYPE]):
                values, encoding = (fields[name] for name in names)
                if values < 0:
                    raise ValueError("a page has less than no values")
                pages.append(Page(fields[_TYPE] == _DICTIONARY_PAGE, fields[_UNCOMPRESSED], values, encoding))
    except (IndexError, KeyError, ValueError, RecursionError) as error:
        raise ChunkError("The pages of the chunk cannot be told apart", FOREIGN) from error
    return pages


# Thrift's compact protocol. Types of fields: 1 and 2 are true and false, 3 a byte, 4 to 6 integers, 7 a double, 8
# bytes, 9 and 10 lists and sets, 12 a structure.


def _struct(data: memoryview, at: int, path: tuple[int, ...], fields: dict[tuple[int, ...], int]) -> int:
    """Where a structure ends that begins at `at`; its integers are put into `fields`, by their numbers."""
    number = 0
    while kind := data[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            at, number = _integer(data, at)
        at = _value(data, at, kind & 15, (*path, number), fields)
    return at + 1


def _value(data: memoryview, at: int, kind: int, path: tuple[int, ...], fields: dict[tuple[int, ...], int]) -> int:
    if kind in (4, 5, 6):
        at, fields[path] = _integer(data, at)
        return at
    if kind == 12:
        return _struct(data, at, path, fields)
    if kind == 8:
        at, length = _varint(data, at)
        return at + length
    if kind in (1, 2):
        return at
    if kind in (3, 7):
        return at + (1 if kind == 3 else 8)
    raise ValueError("a header of a page has a field that none has")


def _integer(data: memoryview, at: int) -> tuple[int, int]:
    at, raw = _varint(data, at)
    return at, (raw >> 1) ^ -(raw & 1)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return at, value
        shift += 7
        if shift > 63:
            raise ValueError("a number without an end")
