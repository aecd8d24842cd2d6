"""SQL over archives: one SELECT statement, in which each table is an archive.

Invariant: a statement reads nothing but these archives: no file, no network, no variable of this process.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.model import Archive, Selection
from nats3_dagster.query.extremes import asks_for_extremes
from nats3_dagster.query.table import ArchiveDataset, Scanned
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

# The name under which a statement has the archive that is given beside it.
MESSAGES = "messages"
MEMORY_BYTES = 1 << 30
_MACROS = Path(__file__).with_name("macros.sql")
# Rows that are taken from DuckDB at a time.
_ROWS = 2048
# Types whose Python values have fewer digits: they come as DuckDB's text.
_FINER = re.compile(r"\b(TIMESTAMPTZ_NS|TIMESTAMP_NS|TIME_NS|INTERVAL)\b")
# How DuckDB shows where in a statement an error is: the line's number, the line or a part of it, and marks below.
_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^")
# Before a statement is seen; nothing can change them afterwards.
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else a table could be a Python variable
}


@dataclass(frozen=True, slots=True)
class Limits:
    """DuckDB's limits for a statement. What does not fit into memory goes to a temporary folder."""

    # For joins, groups and sorts, MEMORY_BYTES by default; beside it come a few hundred MiB for what is read.
    memory_bytes: int | None = None
    # Where the temporary folder is made; None for the system's place.
    temp_parent: Path | None = None
    # The temporary folder's; None for nine tenths of what is free on its disk.
    temp_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a statement, which come as they are asked for."""

    # In the order of the statement; two may have one name.
    columns: tuple[str, ...]
    # DuckDB's name of each column's type.
    types: tuple[str, ...]
    # One value for each column, of Python's types: as exact as DuckDB's. Raises as `run` does.
    rows: Iterator[tuple[Any, ...]]
    # What was fetched so far.
    scanned: Scanned
    # The messages that were removed from the archives of the statement, and which it may ask for.
    removed: tuple[Removed, ...] = ()


@contextmanager
def run(
    workspace: Workspace,
    sql: str,
    selection: Selection,
    *,
    archive: str | None = None,
    over_gaps: bool = False,
    limits: Limits | None = None,
) -> Generator[Result]:
    """Run a SELECT statement. Its tables are archives by name; `archive` is also there as `messages`. Each is narrowed
    by the selection. Sequences that were lost and may be among those asked for are an error, unless `over_gaps`.

    Raises OperatorError for a statement that is not one SELECT, or that DuckDB refuses, in its words; EngineError
    without DuckDB, and where the limits do not suffice; and as a read of chunks does."""
    duckdb = _duckdb()
    scanned = Scanned()
    given = {} if archive is None else {MESSAGES: workspace.catalog.archives.get(archive)}
    limits = limits or Limits()
    with _temporary(limits) as folder, duckdb.connect(config=_CONFIG) as session:
        session.execute(_MACROS.read_text())
        session.execute("SET temp_directory = " + _quoted(folder))
        session.execute(f"SET memory_limit = '{limits.memory_bytes or MEMORY_BYTES}B'")
        if limits.temp_bytes is not None:
            session.execute(f"SET max_temp_directory_size = '{limits.temp_bytes}B'")
        session.execute("SET enable_progress_bar = false")
        session.execute("SET TimeZone = 'UTC'")
        session.execute("SET enable_external_access = false")
        session.execute("SET lock_configuration = true")
        tables = dict[str, ArchiveDataset]()
        with _errors(sql, tables):
            archives = _archives(workspace, session, sql, given)
            extremes = asks_for_extremes(session, sql)
            for name, found in archives.items():
                tables[name] = ArchiveDataset(
                    workspace, found, selection, scanned, over_gaps=over_gaps, extremes=extremes
                )
                session.register(name, tables[name])
            columns, types = _bound(session, sql)
            session.execute(_exact(sql, types))
        gone = [
            r
            for archive in {t.archive.id: t.archive for t in tables.values()}.values()
            for r in removed(workspace, archive, selection)
        ]
        yield Result(columns, types, _rows(session, sql, tables), scanned, tuple(gone))


def _bound(session: "duckdb.DuckDBPyConnection", sql: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of the columns; nothing runs yet."""
    with _placed(session, sql):
        bound = session.sql(sql)
    return tuple(map(str, bound.columns)), tuple(map(str, bound.types))


@contextmanager
def _placed(session: "duckdb.DuckDBPyConnection", sql: str) -> Generator[None]:
    """Gives an error its place in the statement, which DuckDB says only where it executes it."""
    duckdb = _duckdb()
    try:
        yield
    except duckdb.Error as error:
        try:
            session.execute(sql)
        except duckdb.Error as placed:
            if str(placed).startswith(str(error)):
                raise placed from None
        raise


@contextmanager
def _temporary(limits: Limits) -> Generator[str]:
    try:
        folder = TemporaryDirectory(prefix="nats3-query-", dir=limits.temp_parent)
    except OSError as error:
        raise EngineError(
            f"No temporary folder can be made in {limits.temp_parent or 'the usual place'}: {error.strerror}",
            Next.GIVE_QUERY_SPACE(),
        ) from error
    with folder as path:
        yield path


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _exact(sql: str, types: Sequence[str]) -> str:
    """The statement, with values as text whose type Python has with fewer digits only."""
    if not any(map(_FINER.search, types)):
        return sql
    text = sql.encode()
    end = next((at for at, _ in _duckdb().tokenize(sql) if text[at : at + 1] == b";"), len(text))
    names = [f"c{number}" for number in range(len(types))]
    taken = (f"CAST({name} AS {_FINER.sub('VARCHAR', kind)})" for name, kind in zip(names, types, strict=True))
    # The statement is the user's own, and was bound before.
    return f"SELECT {', '.join(taken)} FROM (\n{text[:end].decode()}\n) AS t({', '.join(names)})"  # noqa: S608


def _archives(
    workspace: Workspace, session: "duckdb.DuckDBPyConnection", sql: str, given: Mapping[str, Archive]
) -> dict[str, Archive]:
    """The archives that a statement names, by the name that it gives them. Raises OperatorError."""
    statements = session.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise OperatorError(
            "A query is one SELECT statement" + (f", and this is {len(statements)}" if len(statements) > 1 else ""),
            "An archive is never changed by a query",
        )
    found = dict[str, Archive]()
    with _placed(session, sql):
        names = session.get_table_names(sql)
    for name in names:
        known = given.get(name.lower()) or workspace.catalog.archives.find(name)
        if known is None:
            continue
        if twins := [other for other in found if other.lower() == name.lower()]:
            raise OperatorError(f"{twins[0]} and {name} are one name in SQL", "Give one of them beside the statement")
        found[name] = known
    return found


def _rows(
    session: "duckdb.DuckDBPyConnection", sql: str, tables: Mapping[str, ArchiveDataset]
) -> Iterator[tuple[Any, ...]]:
    while True:
        with _errors(sql, tables):
            rows = session.fetchmany(_ROWS)
        if not rows:
            return
        yield from rows


@contextmanager
def _errors(sql: str, tables: Mapping[str, ArchiveDataset]) -> Generator[None]:
    """Errors of DuckDB in its own words, with the place in the statement; of a scan the error itself."""
    duckdb = _duckdb()
    try:
        yield
    except duckdb.Error as error:
        for table in tables.values():
            if isinstance(table.failure, Nats3Error):
                raise table.failure from error
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException):
            raise _out_of_space(text) from None
        if isinstance(error, duckdb.IOException):
            raise EngineError(_line(text), Next.GIVE_QUERY_SPACE()) from None
        what = _line(text.split("\n\nLINE ")[0])
        hint: Any = _place(text, sql)
        if isinstance(error, duckdb.CatalogException) and "Table with name" in what:
            hint = Next.LIST_ARCHIVES()
            what = what.partition(" Did you mean")[0] + " A table is an archive, by its name"
        raise OperatorError(what, hint) from None


def _line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _out_of_space(text: str) -> EngineError:
    """Uses own words: those of DuckDB name settings that users cannot reach."""
    used = re.search(r"\(([^()]+)/([^()]+) used\)", text)
    limit = f" of {used[2]}" if used else ""
    if "max_temp_directory_size" in text:
        return EngineError(f"The statement needs more than its temporary space{limit}", Next.GIVE_QUERY_SPACE())
    return EngineError(f"The statement needs more than its memory{limit}", Next.GIVE_QUERY_MEMORY())


def _place(text: str, sql: str) -> str:
    """Where in the statement DuckDB found an error; empty where it does not say."""
    found = _PLACE.search(text)
    lines = sql.splitlines()
    if found is None or not 1 <= int(found[1]) <= len(lines):
        return ""
    # The part that is shown has dots where it was cut.
    shown = found[2]
    marked = len(found[3]) - len(f"LINE {found[1]}: ")
    cut = 3 if shown.startswith("...") else 0
    before = lines[int(found[1]) - 1].find(shown[cut:].removesuffix("..."))
    column = f", column {before + marked - cut + 1}" if before >= 0 else ""
    return f"In line {found[1]}{column}: {shown[marked:][:40].rstrip()}"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise EngineError("DuckDB is not installed", "pip install nats3-dagster[query]") from None
    return duckdb
