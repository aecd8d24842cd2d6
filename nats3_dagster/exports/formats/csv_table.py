"""The rows of a batch as CSV: columns of fields, and the lines of each file that gets some of the rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.exports.formats.csv_files import CsvFile, csv_texts, csv_writer, escaped_fields
from nats3_dagster.exports.formats.json_fields import Fields
from nats3_dagster.model.numbers import Int64s


class CsvTable:
    """Takes rows by their places in a batch of `size` messages, a place at most once. With `escape_formulas` as
    CsvFiles: those of `add_row` are escaped already."""

    def __init__(self, size: int, *, escape_formulas: bool = False) -> None:
        self._escape = escape_formulas
        # Which places have a row.
        self.has = np.zeros(size, np.bool_)
        self._fields: list[Fields] = []
        # Of rows that came one by one: by their names, the places and the fields.
        self._single: dict[tuple[str, ...], tuple[list[int], list[list[Any]]]] = {}

    def add(self, fields: Fields) -> None:
        """Rows of one shape."""
        self.has[fields.rows] = True
        self._fields.append(fields._replace(texts=tuple(map(escaped_fields, fields.texts))) if self._escape else fields)

    def add_row(self, place: int, prepared: dict[str, Any]) -> None:
        """One row, as `CsvFile.add` takes it; it replaces one of `add`."""
        places, rows = self._single.setdefault(tuple(prepared), ([], []))
        places.append(place)
        rows.append([*prepared.values()])

    def write(self, files: Sequence[tuple[CsvFile, Int64s]]) -> None:
        """Add to each file the rows at its places, in their order."""
        parts = [*self._fields, *(_fields(names, *rows) for names, rows in self._single.items())]
        # Of each place the part that has its row, and the number of the row among those of all parts.
        part_of, number_of = np.full(len(self.has), -1), np.full(len(self.has), -1)
        total = 0
        for number, part in enumerate(parts):
            part_of[part.rows], number_of[part.rows] = number, np.arange(total, total + len(part.rows))
            total += len(part.rows)
        # Files of the same columns get their lines together.
        alike: dict[tuple[str, ...], list[tuple[CsvFile, Int64s]]] = {}
        for file, places in files:
            first = np.sort(np.unique(part_of[places], return_index=True)[1]) if len(parts) > 1 else [0]
            names = dict.fromkeys(name for at in first for name in parts[part_of[places[at]]].names)
            alike.setdefault(file.columns_with(names), []).append((file, places))
        for columns, group in alike.items():
            taken = pa.array(number_of[np.concatenate([places for _, places in group])])
            lines = _lines([_column(parts, name).take(taken) for name in columns], len(taken))
            start = 0
            for file, places in group:
                file.add_lines(lines.slice(start, len(places)))
                start += len(places)


def _fields(names: tuple[str, ...], places: list[int], rows: list[list[Any]]) -> Fields:
    """Rows that came one by one, as columns."""
    return Fields(np.array(places), names, tuple(_texts(values) for values in zip(*rows, strict=True)))


def _texts(values: Sequence[Any]) -> pa.Array:
    lines: list[str] = []
    csv_writer(lines).writerows([value] for value in values)
    return pa.array(csv_texts(lines), pa.binary())


def _column(parts: Sequence[Fields], name: str) -> pa.Array:
    """The fields of this name in the rows of all parts; empty where a row has none."""
    return pa.concat_arrays(
        [
            part.texts[part.names.index(name)]
            if name in part.names
            else pa.repeat(pa.scalar(b"", pa.binary()), len(part.rows))
            for part in parts
        ]
    )


def _lines(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """The fields of each row with commas between them."""
    if not columns:
        return pa.repeat(pa.scalar(b"", pa.binary()), rows)
    return pc.binary_join_element_wise(*columns, pa.scalar(b",", pa.binary()))
