"""`nats3 query`: a SELECT statement over archives."""

import json
import sys
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from nats3_dagster.cli.reads.selecting import (
    FromTime,
    OverGaps,
    Sequences,
    Subjects,
    ToTime,
    note_removed,
    selection_of,
)
from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.options import Hours, format_of, parse_size
from nats3_dagster.cli.terminal.output import Format, Size, counted, print_document, show
from nats3_dagster.cli.terminal.progress import note, step
from nats3_dagster.documents import rows as views
from nats3_dagster.errors import OperatorError
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# What a value of CSV is quoted for.
_TO_QUOTE = {",", '"', "\n", "\r"}


class Rows(StrEnum):
    """The values of `-o` for `query`."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"


def query(
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="ARCHIVE",
            help="The archive to call messages in the statement; all archives are available by name.",
            autocompletion=completing.archives,
        ),
    ] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One SELECT statement; - reads it from stdin.")
    ] = None,
    hour: Hours = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    sequences: Sequences = None,
    subject: Subjects = None,
    over_gaps: OverGaps = False,
    memory: Annotated[
        int | None,
        typer.Option(
            "--memory",
            parser=parse_size,
            metavar="SIZE",
            help="For joins, groups and sorts. By default 1GiB; what does not fit goes to a temporary folder.",
        ),
    ] = None,
    temp_folder: Annotated[
        Path | None, typer.Option("--temp-folder", metavar="FOLDER", help="Where the temporary folder is made.")
    ] = None,
    temp_size: Annotated[
        int | None,
        typer.Option(
            "--temp-size",
            parser=parse_size,
            metavar="SIZE",
            help="Maximum size of temporary files (default: nine tenths of the free disk space).",
        ),
    ] = None,
    output: Annotated[
        Rows,
        typer.Option("--output", "-o", callback=format_of(Rows), help="table for people, the others for programs."),
    ] = Rows.table,
) -> None:
    """Run SQL over archives with DuckDB; only chunks that may match are fetched.

    Columns: seq, time, time_ns, subject, subject_bytes, headers, data, hour, incarnation. Macros: as_text(data),
    as_json(data), header(headers, 'Name')."""
    archive, sql = (None, first) if second is None else (first, second)
    if sql == "-":
        sql = sys.stdin.read()
    if not sql or not sql.strip():
        raise OperatorError("There is no statement", 'Write it as: nats3 query "SELECT count(*) FROM logs"')
    selection = selection_of(hour, from_time, to_time, sequences, subject)
    with (
        Workspace(Settings.load()) as workspace,
        engine.run(
            workspace,
            sql,
            selection,
            archive=archive,
            over_gaps=over_gaps,
            limits=engine.Limits(memory, temp_folder, temp_size),
        ) as result,
    ):
        _print(output, result)
        note_removed(result.removed)


def _print(output: Rows, result: engine.Result) -> None:
    if output is Rows.csv:
        for row in chain([result.columns], result.rows):
            print(",".join(map(_csv, row)))
        return
    if output is Rows.json:
        _print_json(result)
        return
    if output is Rows.yaml:
        print_document(Format.yaml, list(views.documents(result.columns, result.types, result.rows)))
        return
    with step("Scanning"):
        rows = list(result.rows)
    columns = {name: (lambda row, at=at: _cell(row[at])) for at, name in enumerate(views.unique(result.columns))}
    show(Format.table, rows, columns)
    scanned = result.scanned
    note(
        f"{counted(len(rows), 'row')}; {scanned.chunks:,} of {counted(scanned.selected, 'chunk')} read, "
        f"{Size(scanned.fetched_bytes).human_readable(separator=' ')}"
    )


def _cell(value: Any) -> object:
    return value if value is None or type(value) in (bool, int, float) else views.text(value)


def _csv(value: Any) -> str:
    """A null has no quotes, and an empty text has them."""
    text = views.text(value)
    if value is None or (text and not _TO_QUOTE.intersection(text)):
        return text
    return '"' + text.replace('"', '""') + '"'


def _print_json(result: engine.Result) -> None:
    """One array, a row a line, as the rows come."""
    between = "["
    for document in views.documents(result.columns, result.types, result.rows):
        print(between + json.dumps(document), end="")
        between = ",\n "
    print("[]" if between == "[" else "]")
