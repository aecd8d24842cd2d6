"""CSV files: of rows by name, and of lines that are made already."""

import csv
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.exports.decoding.message import Message, Row
from nats3_dagster.exports.formats.json_lines import bytes_of
from nats3_dagster.exports.formats.values import AS_THEY_ARE, PENDING_ROWS, check_columns, to_field
from nats3_dagster.formulas import BEGINS, NUMBER, escaped

# The rule of `formulas` for Arrow's fields, which have their quotation mark already.
_FORMULA_FIELD, _NUMBER_FIELD = f'^("?){BEGINS}', f"^{NUMBER}$"


class CsvFiles:
    """CSV with a line of names, fields quoted where they must be (RFC 4180), lines that end with a line feed. With
    `escape_formulas` no field and no name is a formula for a spreadsheet."""

    whole = False

    def __init__(
        self, columns: Sequence[str], compress: Callable[[bytes], bytes], *, escape_formulas: bool = False
    ) -> None:
        self._columns = tuple(columns)
        self._compress = compress
        self._escape = escape_formulas

    def prepare(self, message: Message, row: Row, /) -> dict[str, Any]:
        """Raises Undecodable."""
        fields = row.fields
        if self._columns:
            prepared = {name: to_field(fields[name]) for name in self._columns if name in fields}
        else:
            check_columns(fields)
            prepared = {
                name: value if type(value) in AS_THEY_ARE else to_field(value) for name, value in fields.items()
            }
        return {name: escaped(value) for name, value in prepared.items()} if self._escape else prepared

    def new_file(self) -> "CsvFile":
        return CsvFile(self._columns, self._compress, escape_formulas=self._escape)


class CsvFile:
    """Takes fields by name. Without columns it has the names of all rows, in the order in which they first came."""

    def __init__(
        self, columns: tuple[str, ...], compress: Callable[[bytes], bytes], *, escape_formulas: bool = False
    ) -> None:
        self._columns = dict.fromkeys(columns)
        self._escape = escape_formulas
        self._fixed = bool(columns)
        self._compress = compress
        # Lines without their ends, each part with the number of columns that were known when they came.
        self._parts: list[tuple[int, pa.Array]] = []
        self._pending: list[str] = []
        self._write = csv_writer(self._pending).writerow

    def add(self, prepared: dict[str, Any]) -> None:
        if not self._fixed and not self._columns.keys() >= prepared.keys():
            self.columns_with(prepared)
        self._write(map(prepared.get, self._columns))
        if len(self._pending) == PENDING_ROWS:
            self._flush()

    def columns_with(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns, once a row of these names is in the file."""
        new = {} if self._fixed else {name: None for name in names if name not in self._columns}
        if new:
            self._flush()
            self._columns |= new
        return tuple(self._columns)

    def add_lines(self, lines: pa.Array) -> None:
        """Lines with all columns (binary), without their ends."""
        self._flush()
        self._parts.append((len(self._columns), lines))

    def finish(self) -> bytes:
        self._flush()
        head: list[str] = []
        csv_writer(head).writerow(map(escaped, self._columns) if self._escape else self._columns)
        out = [head[0][:-2].encode() + b"\n"]
        for columns, lines in self._parts:
            # Columns that came later are empty in these lines.
            ends = pa.scalar(b"," * (len(self._columns) - max(columns, 1)) + b"\n", pa.large_binary())
            if len(self._columns) == 1:
                lines = pc.if_else(pc.equal(pc.binary_length(lines), 0), pa.scalar(b'""', lines.type), lines)
            lines = lines.cast(pa.large_binary())
            out.append(bytes_of(pc.binary_join_element_wise(lines, ends, pa.scalar(b"", pa.large_binary()))))
        return self._compress(b"".join(out))

    def _flush(self) -> None:
        if self._pending:
            self._parts.append((len(self._columns), pa.array(csv_texts(self._pending), pa.large_binary())))
            self._pending.clear()


def escaped_fields(fields: pa.Array) -> pa.Array:
    """The same of fields as CSV has them (binary), quoted or not."""
    formulas = pc.match_substring_regex(fields, _FORMULA_FIELD)
    if not pc.any(formulas).as_py():
        return fields
    runs = pc.and_(formulas, pc.invert(pc.match_substring_regex(fields, _NUMBER_FIELD)))
    safe = pc.replace_substring_regex(fields, _FORMULA_FIELD, r"\1'\2", max_replacements=1)
    return pc.if_else(runs, safe, fields)


def csv_writer(lines: list[str]) -> Any:
    """A writer of CSV that appends each row to `lines`; `csv_texts` makes bytes of them."""
    # It quotes a field with a character of its line end, and both may stand in a field.
    sink: Any = SimpleNamespace(write=lines.append)
    return csv.writer(sink, lineterminator="\r\n")


def csv_texts(lines: Sequence[str]) -> list[bytes]:
    """Rows of `csv_writer` without their ends. The writer quotes a field that is empty and alone; here it is empty."""
    return [b"" if line == '""\r\n' else line[:-2].encode() for line in lines]
