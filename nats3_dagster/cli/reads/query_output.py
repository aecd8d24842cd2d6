"""Rows of a query on stdout: a table for people; JSON, YAML and CSV a row at a time; or one Parquet file.

Invariant: cells come from strangers. On a terminal nothing in them moves the cursor, in any format.
"""

import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from typing import Any

from nats3_dagster.cli.terminal.output import Format, Size, as_yaml, counted, show
from nats3_dagster.cli.terminal.progress import note, printable, step
from nats3_dagster.documents import rows as views
from nats3_dagster.errors import OperatorError
from nats3_dagster.formulas import escaped
from nats3_dagster.query.result import Result

# What a value of CSV is quoted for.
_TO_QUOTE = {",", '"', "\n", "\r"}
# A table is printed once all of its rows are there: it is for people.
_MOST_ROWS, _MOST_BYTES = 100_000, 128 << 20


class Rows(StrEnum):
    """The values of `-o` for `query`."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    parquet = "parquet"


def check_output(output: Rows, *, escape_formulas: bool) -> None:
    """Raises OperatorError for options that do not fit the format."""
    if output is Rows.parquet and sys.stdout.isatty():
        raise OperatorError("A Parquet file is nothing for a terminal", "Send it to a file: > rows.parquet")
    if escape_formulas and output is not Rows.csv:
        raise OperatorError("--escape-formulas is for CSV", "Add -o csv, or leave it out")


def write(output: Rows, result: Result, *, escape_formulas: bool = False) -> None:
    """All rows. Raises OperatorError for those that the format cannot have."""
    match output:
        case Rows.csv:
            _csv(chain([result.columns], result.rows), escape_formulas)
        case Rows.json:
            _json(result)
        case Rows.yaml:
            _yaml(result)
        case Rows.parquet:
            _parquet(result)
        case Rows.table:
            _table(result)


def _table(result: Result) -> None:
    with step("Scanning"):
        rows = [*_few(result.rows)]
    if result.columns == ("explain_key", "explain_value"):
        for line in chain.from_iterable(str(text).splitlines() for _, text in rows):
            print(printable(line))
        return
    columns = {name: (lambda row, at=at: _cell(row[at])) for at, name in enumerate(views.unique(result.columns))}
    show(Format.table, rows, columns)
    scanned = result.scanned
    note(
        f"{counted(len(rows), 'row')}; {scanned.chunks:,} of {counted(scanned.selected, 'chunk')} read, "
        f"{Size(scanned.fetched_bytes).human_readable(separator=' ')}"
    )


def _few(rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
    """The rows. Raises OperatorError where there are more than a table has."""
    size = 0
    for number, row in enumerate(rows):
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if number == _MOST_ROWS or size > _MOST_BYTES:
            raise OperatorError(
                f"A table has at most {_MOST_ROWS:,} rows and {_MOST_BYTES >> 20} MiB",
                "Ask for fewer with LIMIT, or take all with -o csv, json or parquet",
            )
        yield row


def _cell(value: Any) -> object:
    return value if value is None or type(value) in (bool, int, float) else views.text(value)


def _csv(rows: Iterable[tuple[Any, ...]], escape_formulas: bool) -> None:
    shown = printable if sys.stdout.isatty() else str
    for row in rows:
        texts = [views.text(value) for value in row]
        if escape_formulas:
            texts = [escaped(text) for text in texts]
        line = ",".join(_field(value, shown(text)) for value, text in zip(row, texts, strict=True))
        print(line or '""')  # readers pass over an empty line


def _field(value: Any, text: str) -> str:
    """A null has no quotes, and an empty text has them."""
    if value is None or (text and not _TO_QUOTE.intersection(text)):
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(result: Result) -> None:
    """One array, a row a line, as the rows come."""
    between = "["
    for document in views.documents(result.columns, result.types, result.rows):
        print(between + json.dumps(document), end="")
        between = ",\n "
    print("[]" if between == "[" else "]")


def _yaml(result: Result) -> None:
    """One list, as the rows come."""
    is_empty = True
    for document in views.documents(result.columns, result.types, result.rows):
        print(as_yaml([document]), end="")
        is_empty = False
    if is_empty:
        print("[]")


def _parquet(result: Result) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert result.arrow is not None
    schema, batches = result.arrow()
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(schema, views.unique(result.columns), strict=True)]
    )
    sys.stdout.flush()
    try:
        with pq.ParquetWriter(sys.stdout.buffer, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(pa.record_batch(batch.columns, schema=schema))
    except pa.ArrowNotImplementedError as error:
        reason = " ".join(str(error).split())
        raise OperatorError(f"Parquet has no such column: {reason}", "Cast it, such as to VARCHAR") from None
    sys.stdout.buffer.flush()
