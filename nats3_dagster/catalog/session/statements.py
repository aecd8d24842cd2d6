"""The statements of sql/*.sql, run by name on a connection; each column of a row is matched to a field by its name."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from psycopg.rows import class_row, scalar_row

from nats3_dagster.catalog.session.connection import Connection
from nats3_dagster.redaction import redacted

T = TypeVar("T")

# A statement begins with `-- name: list_chunks(archive, after)`: its name, and its parameters for readers.
_NAME = re.compile(r"^-- name: (?P<name>\w+)\([\w, ]*\)$", re.MULTILINE)
# A parameter is `:archive`. Strings, quoted names, comments and casts (`::text`) are matched first, and kept.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|:(?P<name>[a-z_]\w*)")


class Statements:
    """The values of a statement's parameters are given by name. Every call raises psycopg.Error when Postgres refuses
    the statement."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, kind: type[T], statement: str, /, **values: object) -> list[T]:
        """The rows, each as a `kind` that has a field for each column. Raises TypeError where the two differ."""
        with self.connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(_text(statement), _given(values)).fetchall()

    def batches(self, kind: type[T], statement: str, size: int, /, **values: object) -> Iterator[list[T]]:
        """The same rows, at most `size` at a time, so that not all of them are held at once."""
        with self.connection.cursor(row_factory=class_row(kind)) as cursor:
            cursor.execute(_text(statement), _given(values))
            while batch := cursor.fetchmany(size):
                yield batch

    def row(self, kind: type[T], statement: str, /, **values: object) -> T | None:
        """The first row, None when there is none."""
        rows = self.rows(kind, statement, **values)
        return rows[0] if rows else None

    def values(self, kind: type[T], statement: str, /, **values: object) -> list[T]:
        """The first column of each row."""
        with self.connection.cursor(row_factory=scalar_row) as cursor:
            column: list[Any] = cursor.execute(_text(statement), _given(values)).fetchall()
        assert all(isinstance(value, kind) for value in column), f"{statement} does not answer with {kind.__name__}"
        return column

    def value(self, kind: type[T], statement: str, /, **values: object) -> T:
        """The first column of the one row that a statement like `select count(*)` always has."""
        (value,) = self.values(kind, statement, **values)
        return value

    def value_or_none(self, kind: type[T], statement: str, /, **values: object) -> T | None:
        """The first column of the first row, None when there is no row."""
        column = self.values(kind, statement, **values)
        return column[0] if column else None

    def last_value(self, kind: type[T], statement: str, /) -> T:
        """The first column of the one row of the last of several statements, which take no parameters."""
        with self.connection.cursor(row_factory=scalar_row) as cursor:
            cursor.execute(_text(statement))
            while cursor.nextset():
                pass
            value: Any = cursor.fetchone()
        assert isinstance(value, kind), f"{statement} does not answer with {kind.__name__}"
        return value

    def run(self, statement: str, /, **values: object) -> int:
        """Returns the number of rows that the statement wrote, or read."""
        return self.connection.execute(_text(statement), _given(values)).rowcount

    def copy(self, statement: str, types: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write the rows by `copy ... from stdin (format binary)`; `types`: those of the columns."""
        with self.connection.cursor() as cursor, cursor.copy(_text(statement)) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def _given(values: dict[str, object]) -> dict[str, object] | None:
    """The values, with the text of an error filtered: it may be that of a library."""
    if isinstance(error := values.get("error"), str):
        values["error"] = redacted(error)
    return values or None


def _text(statement: str) -> bytes:
    return _statements()[statement]


@cache
def _statements() -> dict[str, bytes]:
    """The SQL of each statement by its name, with parameters as psycopg writes them."""
    statements: dict[str, bytes] = {}
    for file in (Path(__file__).parents[1] / "sql").glob("*.sql"):
        found = parse(file.read_text())
        assert not (twice := found.keys() & statements.keys()), f"{file.name} has {twice} again"
        statements |= {name: sql.encode() for name, sql in found.items()}
    return statements


def parse(text: str) -> dict[str, str]:
    """Splits a file into statements by name, and writes each parameter `:name` as `%(name)s`."""
    heads = [*_NAME.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {
        head["name"]: _PARAMETER.sub(_parameter, text[head.end() : end]).strip()
        for head, end in zip(heads, ends, strict=True)
    }


def _parameter(match: re.Match[str]) -> str:
    return f"%({match['name']})s" if match["name"] else match[0]
