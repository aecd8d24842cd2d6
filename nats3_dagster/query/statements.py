"""Statements: which ones a query may be, and which archives they name.

Invariant: a statement reads. What is refused here would change nothing either: a session has no table of its own, and
reaches no file.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive
from nats3_dagster.query.faults import duckdb_module, placed
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

# DuckDB makes several statements of a PIVOT whose columns are those of the data.
_READS: Final = ("SELECT", "MULTI")
# The words that a statement with such a PIVOT begins with; others keep what it gives.
_FIRST: Final = ("pivot", "pivot_wider", "select", "from", "with", "(")
# DuckDB names no tables of several statements, and of one with parameters.
_TELLS_NONE: Final = ("Expected a single statement", "Unexpected prepared parameter")
# Where a statement asks DuckDB which tables there are.
_LISTS: Final = re.compile(r"(?i)show|information_schema|pg_catalog|pg_\w+|duckdb_(tables|views|columns)|sqlite_\w+")


def check(session: "duckdb.DuckDBPyConnection", sql: str) -> None:
    """Raises OperatorError for a text that is not one statement that reads, and duckdb.Error for none at all."""
    statements = session.extract_statements(sql)
    if len(statements) != 1:
        many = f", and this is {len(statements)}" if statements else ""
        raise OperatorError(f"A query is one SELECT statement{many}", "An archive is never changed by a query")
    first = next((token.lower() for token, _ in _tokens(sql)), "")
    if not (_explains(session, sql) if first == "explain" else _reads(statements[0])):
        raise OperatorError(
            "A query is one SELECT statement, or EXPLAIN, PIVOT, DESCRIBE, SUMMARIZE or SHOW TABLES",
            "An archive is never changed by a query",
        )


def archives_of(
    workspace: Workspace, session: "duckdb.DuckDBPyConnection", sql: str, given: Mapping[str, Archive]
) -> dict[str, Archive]:
    """The archives that a statement names, by the name that it gives them; all of them for one that lists tables.
    Raises OperatorError, and duckdb.Error."""
    duckdb = duckdb_module()
    words = _words(sql)
    if any(map(_LISTS.fullmatch, words)):
        every = {archive.name.lower(): archive for archive in workspace.catalog.archives.all()}
        return {one.name: one for key, one in every.items() if key not in given} | dict(given)
    try:
        with placed(session, sql):
            names = set(session.get_table_names(sql))
    except duckdb.Error as error:
        if not any(text in str(error) for text in _TELLS_NONE):
            raise
        names = {one.name for one in workspace.catalog.archives.all()}.union(given).intersection(words)
    archives = dict[str, Archive]()
    for name in names:
        archive = given.get(name.lower()) or workspace.catalog.archives.find(name)
        if archive is None:
            continue
        if twins := [other for other in archives if other.lower() == name.lower()]:
            raise OperatorError(f"{twins[0]} and {name} are one name in SQL", "Give one of them beside the statement")
        archives[name] = archive
    return archives


def single(sql: str) -> str:
    """The text of the only statement, without what ends it."""
    return next((before for token, before in _tokens(sql) if token == ";"), sql)


def _reads(statement: Any) -> bool:
    kind = statement.type.name
    first = next((token.lower() for token, _ in _tokens(statement.query)), "")
    return kind in _READS and (kind != "MULTI" or first in _FIRST)


def _explains(session: "duckdb.DuckDBPyConnection", sql: str) -> bool:
    """True if an EXPLAIN is one of a statement that reads."""
    inner = re.sub(r"(?is)\A(\s|--[^\n]*\n|/\*.*?\*/)*explain\s+(analyze\b)?(\s*\([^()]*\)(?=\s*\w))?", "", sql)
    try:
        statements = session.extract_statements(inner)
    except duckdb_module().Error:
        return False
    return len(statements) == 1 and _reads(statements[0])


def _words(sql: str) -> list[str]:
    """The keywords and identifiers of a statement, these without their quotes."""
    return [token[1:-1].replace('""', '"') if token.startswith('"') else token for token, _ in _tokens(sql)]


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Each token of a statement that is no comment, as it is written, and the text before it."""
    text = sql.encode()
    tokens = [(start, kind.name) for start, kind in duckdb_module().tokenize(sql)]
    for (start, kind), (end, _) in zip(tokens, [*tokens[1:], (len(text), "")], strict=True):
        if kind != "comment":
            # A token goes on up to the next one.
            part = text[start:end].decode(errors="replace")
            match = re.match(r'"(?:[^"]|"")*"|\w+', part)
            yield match[0] if match else part.strip()[:1], text[:start].decode(errors="replace")
