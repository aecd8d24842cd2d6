"""SQL over archives: one SELECT statement, in which each table is an archive.

Invariant: a statement reads nothing but these archives: no file, no network, no variable of this process.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nats3_dagster.archive import status
from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.model import Archive, Selection
from nats3_dagster.query.table import ArchiveTable, Scanned
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

# The name under which a statement has the archive that is given beside it.
MESSAGES = "messages"
_MACROS = Path(__file__).with_name("macros.sql")
# Rows that are taken from DuckDB at a time.
_ROWS = 2048
# Before a statement is seen; nothing can change them afterwards.
_CONFIG = {
    "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # else a table could be a variable of ours
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a statement, which come as they are asked for."""

    # In the order of the statement; two may have one name.
    columns: tuple[str, ...]
    # DuckDB's name of each column's type.
    types: tuple[str, ...]
    # One value for each column, of Python's types. Raises as `run` does.
    rows: Iterator[tuple[Any, ...]]
    # What was fetched so far.
    scanned: Scanned


@contextmanager
def run(
    workspace: Workspace, sql: str, selection: Selection, *, archive: str | None = None, over_gaps: bool = False
) -> Generator[Result]:
    """Run a SELECT statement. Its tables are archives by name; `archive` is also there as `messages`. Each is narrowed
    by the selection. Sequences that were lost and may be among those asked for are an error, unless `over_gaps`.

    Raises OperatorError for a statement that is not one SELECT, or that DuckDB refuses, in its words; EngineError
    without DuckDB; and as a fetch of chunks does."""
    duckdb = _duckdb()
    scanned = Scanned()
    given = {} if archive is None else {MESSAGES: status.find(workspace, archive)}
    with TemporaryDirectory(prefix="nats3-query-") as folder, duckdb.connect(config=_CONFIG) as session:
        session.execute(_MACROS.read_text())
        # What does not fit into memory goes to this folder.
        session.execute(f"SET temp_directory = '{folder}'")
        session.execute("SET TimeZone = 'UTC'")
        session.execute("SET enable_external_access = false")
        session.execute("SET lock_configuration = true")
        tables = dict[str, ArchiveTable]()
        with _errors(tables):
            for name, found in _archives(workspace, session, sql, given).items():
                tables[name] = ArchiveTable(workspace, found, selection, scanned, over_gaps=over_gaps)
                session.register(name, tables[name])
            session.execute(sql)
            described = session.description or []
        columns, types = tuple(str(one[0]) for one in described), tuple(str(one[1]) for one in described)
        yield Result(columns, types, _rows(session, tables), scanned)


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
    for name in session.get_table_names(sql):
        known = given.get(name.lower()) or status.find_or_none(workspace, name)
        if known is None:
            continue
        if twins := [other for other in found if other.lower() == name.lower()]:
            raise OperatorError(f"{twins[0]} and {name} are one name in SQL", "Give one of them beside the statement")
        found[name] = known
    return found


def _rows(session: "duckdb.DuckDBPyConnection", tables: Mapping[str, ArchiveTable]) -> Iterator[tuple[Any, ...]]:
    while True:
        with _errors(tables):
            rows = session.fetchmany(_ROWS)
        if not rows:
            return
        yield from rows


@contextmanager
def _errors(tables: Mapping[str, ArchiveTable]) -> Generator[None]:
    """Errors of DuckDB in its own words; of a scan the error itself."""
    duckdb = _duckdb()
    try:
        yield
    except duckdb.Error as error:
        for table in tables.values():
            if isinstance(table.failure, Nats3Error):
                raise table.failure from error
        what = " ".join(str(error).split("\n\nLINE ")[0].split()).rstrip(".")
        hint: Any = ""
        if isinstance(error, duckdb.CatalogException) and "Table with name" in what:
            hint = Next.LIST_ARCHIVES()
            what = what.partition(" Did you mean")[0] + " A table is an archive, by its name"
        raise OperatorError(what, hint) from None


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise EngineError("DuckDB is not installed", "pip install nats3-dagster[query]") from None
    return duckdb
