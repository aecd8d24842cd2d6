"""`nats3 query`: a SELECT statement over archives."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nats3_dagster.cli.reads.query_output import Rows, check_output, write
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
from nats3_dagster.cli.terminal.options import Hours, format_of, parse_duration, parse_size
from nats3_dagster.errors import OperatorError
from nats3_dagster.query import process
from nats3_dagster.query.limits import SECONDS, Limits
from nats3_dagster.query.wire import Request
from nats3_dagster.settings import Settings


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
    timeout: Annotated[
        int | None,
        typer.Option(
            "--timeout", parser=parse_duration, metavar="DURATION", help="End it after this time (default: 1h)."
        ),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="VALUE", help="The value of a ? in the statement, in order; as text."),
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas", help="In csv: an apostrophe before fields that a spreadsheet would run as a formula."
        ),
    ] = False,
    output: Annotated[
        Rows,
        typer.Option(
            "--output", "-o", callback=format_of(Rows), help="table for people, the others for programs and files."
        ),
    ] = Rows.table,
) -> None:
    """Run SQL over archives with DuckDB; only chunks that may match are fetched.

    The statement runs in a process of its own, within --memory and --timeout.

    Columns: seq, time, time_ns, subject, subject_bytes, headers, data, hour, incarnation. Macros: as_text(data),
    as_json(data), header(headers, 'Name')."""
    archive, sql = (None, first) if second is None else (first, second)
    if sql == "-":
        sql = sys.stdin.read()
    if not sql or not sql.strip():
        raise OperatorError("There is no statement", 'Write it as: nats3 query "SELECT count(*) FROM logs"')
    check_output(output, escape_formulas=escape_formulas)
    selection = selection_of(hour, from_time, to_time, sequences, subject)
    request = Request(
        Settings.load(),
        sql,
        selection,
        Limits(memory, temp_folder, temp_size, SECONDS if timeout is None else timeout),
        archive=archive,
        over_gaps=over_gaps,
        parameters=tuple(params or ()),
        as_arrow=output is Rows.parquet,
    )
    with process.run(request) as result:
        write(output, result, escape_formulas=escape_formulas)
        note_removed(result.removed)
