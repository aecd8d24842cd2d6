"""SQL over archives: one SELECT statement, in which each table is an archive.

Invariant: a statement reads nothing but these archives: no file, no network, no variable of this process. It sees two
kinds of DuckDB's settings, the limits that it was given and its temporary folder, and changes none.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.removed import removed
from nats3_dagster.model import Selection
from nats3_dagster.query.extremes import asks_for_extremes
from nats3_dagster.query.faults import duckdb_module, placed, worded
from nats3_dagster.query.limits import MEMORY_BYTES, Limits
from nats3_dagster.query.result import Result, Scanned
from nats3_dagster.query.statements import archives_of, check, single
from nats3_dagster.query.table import ArchiveDataset
from nats3_dagster.query.temporary import temporary
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# The name under which a statement has the archive that is given beside it.
MESSAGES = "messages"
_MACROS = Path(__file__).with_name("macros.sql")
# Rows that are taken from DuckDB at a time.
_ROWS = 2048
# Types whose Python values have fewer digits: they come as DuckDB's text.
_FINER = re.compile(r"\b(TIMESTAMPTZ_NS|TIMESTAMP_NS|TIME_NS|INTERVAL)\b")
# Before a statement is seen; nothing can change them afterwards.
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else a table could be a Python variable
}
# Settings whose defaults name the home directory of the user. A statement may read them, and nothing is there.
_NOWHERE = ("home_directory", "secret_directory", "extension_directory")


@contextmanager
def run(
    workspace: Workspace,
    sql: str,
    selection: Selection,
    *,
    archive: str | None = None,
    over_gaps: bool = False,
    limits: Limits | None = None,
    parameters: Sequence[str] = (),
    as_arrow: bool = False,
) -> Generator[Result]:
    """Run a SELECT statement in this process: see `process.run` for one of another person. Its tables are archives by
    name; `archive` is also there as `messages`. Each is narrowed by the selection. Sequences that were lost and may be
    among those asked for are an error, unless `over_gaps`. `parameters` are the values of `?`, or of $1, $2 and so on.
    `as_arrow`: the rows come by `arrow`.

    Raises OperatorError for a statement that is not one SELECT, or that DuckDB refuses, in its words; EngineError
    without DuckDB, and where the limits do not suffice; and as a read of chunks does."""
    scanned = Scanned()
    given = {} if archive is None else {MESSAGES: workspace.catalog.archives.get(archive)}
    limits = limits or Limits()
    tables = dict[str, ArchiveDataset]()
    with temporary(limits) as folder, _session(folder, limits) as session:
        with worded(sql, tables):
            check(session, sql)
            archives = archives_of(workspace, session, sql, given)
            extremes = asks_for_extremes(session, sql)
            for name, found in archives.items():
                selected = ArchiveSelection(workspace, found, selection)
                tables[name] = ArchiveDataset(selected, scanned, over_gaps=over_gaps, extremes=extremes)
                session.register(name, tables[name])
            columns, types = _bound(session, sql, parameters)
            session.execute(sql if as_arrow else _exact(sql, types), [*parameters])
        gone = [
            r
            for archive in {t.archive.id: t.archive for t in tables.values()}.values()
            for r in removed(workspace, archive, selection)
        ]
        arrow = (lambda: _arrow(session, sql, tables)) if as_arrow else None
        yield Result(columns, types, _rows(session, sql, tables), arrow, scanned, tuple(gone))


@contextmanager
def _session(folder: str, limits: Limits) -> Generator["duckdb.DuckDBPyConnection"]:
    with duckdb_module().connect(config=_CONFIG) as session:
        session.execute(_MACROS.read_text())
        session.execute("SET temp_directory = " + _quoted(folder))
        for name in _NOWHERE:
            session.execute(f"SET {name} = '/dev/null'")
        session.execute(f"SET memory_limit = '{limits.memory_bytes or MEMORY_BYTES}B'")
        if limits.temp_bytes is not None:
            session.execute(f"SET max_temp_directory_size = '{limits.temp_bytes}B'")
        session.execute("SET enable_progress_bar = false")
        session.execute("SET TimeZone = 'UTC'")
        session.execute("SET enable_external_access = false")
        session.execute("SET lock_configuration = true")
        yield session


def _bound(
    session: "duckdb.DuckDBPyConnection", sql: str, parameters: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of the columns; nothing runs yet, but what finds the columns of a PIVOT."""
    with placed(session, sql):
        bound = session.sql(sql, params=[*parameters])
    return tuple(map(str, bound.columns)), tuple(map(str, bound.types))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _exact(sql: str, types: Sequence[str]) -> str:
    """The statement, with values as text whose type Python has with fewer digits only."""
    if not any(map(_FINER.search, types)):
        return sql
    names = [f"c{number}" for number in range(len(types))]
    taken = (f"CAST({name} AS {_FINER.sub('VARCHAR', kind)})" for name, kind in zip(names, types, strict=True))
    # The statement is the user's own, and was bound before.
    return f"SELECT {', '.join(taken)} FROM (\n{single(sql)}\n) AS t({', '.join(names)})"  # noqa: S608


def _rows(
    session: "duckdb.DuckDBPyConnection", sql: str, tables: Mapping[str, ArchiveDataset]
) -> Iterator[tuple[Any, ...]]:
    while True:
        with worded(sql, tables):
            rows = session.fetchmany(_ROWS)
        if not rows:
            return
        yield from rows


def _arrow(
    session: "duckdb.DuckDBPyConnection", sql: str, tables: Mapping[str, ArchiveDataset]
) -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
    # The second is its name before DuckDB 1.5.
    reader = getattr(session, "to_arrow_reader", None) or getattr(session, "fetch_record_batch")  # noqa: B009
    with worded(sql, tables):
        batches = reader(_ROWS)

    def checked() -> "Iterator[pa.RecordBatch]":
        with worded(sql, tables):
            try:
                yield from batches
            except (OSError, ValueError) as error:  # Arrow has the text alone
                raise duckdb_module().Error(str(error)) from None

    return batches.schema, checked()
