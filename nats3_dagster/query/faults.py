"""Faults of a statement: DuckDB's errors in its own words, in one line, with their place in the statement."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    import duckdb

    from nats3_dagster.query.table import ArchiveDataset

# How DuckDB shows where in a statement an error is: the line's number, the line or a part of it, and marks below.
_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^")
# What libraries say, also on their way out, when no memory is left.
_NO_MEMORY = re.compile(
    r"bad[ _]alloc|MemoryError|memory allocation of|malloc of size|can't start new thread|[Oo]ut of [Mm]emory"
)


def duckdb_module() -> Any:
    """Raises EngineError where it is not installed."""
    try:
        import duckdb
    except ImportError:
        raise EngineError("DuckDB is not installed", "pip install nats3-dagster[query]") from None
    return duckdb


def out_of_memory(limit: str = "") -> EngineError:
    """The error of a statement that needs more memory than it may have."""
    return EngineError(f"The statement needs more than its memory{limit}", Next.GIVE_QUERY_MEMORY())


def says_no_memory(text: str) -> bool:
    """True if a library says so that it got no memory."""
    return bool(_NO_MEMORY.search(text))


@contextmanager
def placed(session: "duckdb.DuckDBPyConnection", sql: str) -> Generator[None]:
    """Gives an error its place in the statement, which DuckDB says only where it executes it."""
    duckdb = duckdb_module()
    try:
        yield
    except duckdb.Error as error:
        try:
            session.execute(sql)
        except duckdb.Error as again:
            if str(again).startswith(str(error)):
                raise again from None
        raise


@contextmanager
def worded(sql: str, tables: "Mapping[str, ArchiveDataset]") -> Generator[None]:
    """Errors of DuckDB in its own words, with the place in the statement; of a scan the error itself."""
    duckdb = duckdb_module()
    try:
        yield
    except MemoryError:
        raise out_of_memory() from None
    except UnicodeEncodeError:
        raise OperatorError("The statement is no text: it has bytes that are not UTF-8", "Write it in UTF-8") from None
    except duckdb.Error as error:
        for table in tables.values():
            if isinstance(table.failure, Nats3Error):
                raise table.failure from error
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException) or says_no_memory(text):
            raise _out_of_space(text) from None
        if isinstance(error, duckdb.IOException):
            raise EngineError(line(text), Next.GIVE_QUERY_SPACE()) from None
        what = line(text.split("\n\nLINE ")[0])
        hint: Any = _place(text, sql)
        if isinstance(error, duckdb.CatalogException) and "Table with name" in what:
            hint = Next.LIST_ARCHIVES()
            what = what.partition(" Did you mean")[0] + " A table is an archive, by its name"
        elif "Values were not provided for the following parameters" in what:
            hint = Next.GIVE_QUERY_PARAMETERS()
        raise OperatorError(what, hint) from None


def line(text: str) -> str:
    """The text on one line, without a full stop."""
    return " ".join(text.split()).rstrip(".")


def _out_of_space(text: str) -> EngineError:
    """Uses own words: those of DuckDB name settings that users cannot reach."""
    used = re.search(r"\(([^()]+)/([^()]+) used\)", text)
    limit = f" of {used[2]}" if used else ""
    if "max_temp_directory_size" in text:
        return EngineError(f"The statement needs more than its temporary space{limit}", Next.GIVE_QUERY_SPACE())
    return out_of_memory(limit)


def _place(text: str, sql: str) -> str:
    """Returns the place in the statement at which DuckDB found an error; empty if it does not say."""
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
