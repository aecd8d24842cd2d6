"""Dump and load: a whole catalog as one file, and back into an empty one.

Invariants: a dump is one snapshot, whatever commits meanwhile. A load is all of the file, proven by its digest and by
the sums of the catalog, or nothing.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, LiteralString

import psycopg
from psycopg import sql

from nats3_dagster.catalog.recovery.dump_file import FORMAT, DumpReader, DumpWriter
from nats3_dagster.catalog.session.connection import Connection, address, open_connection
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.schema import VERSION, check_version, share_version
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError, Conflict
from nats3_dagster.fault_points import fault_point
from nats3_dagster.steps import Next


@dataclass(slots=True, kw_only=True)
class TableRow:
    """A table, with the columns that a dump has of it."""

    name: str
    columns: list[str]


@dataclass(frozen=True, slots=True)
class Dumped:
    """The content of a dump."""

    # Rows by table.
    rows: dict[str, int]
    # SHA-256 of the content, in hex.
    digest: str


def dump(url: str, file: IO[bytes]) -> Dumped:
    """Write the catalog as it is now into the file. Raises CatalogError."""
    rows: dict[str, int] = {}
    writer = DumpWriter(file)
    with _transaction(url, "isolation level repeatable read read only") as connection:
        statements = Statements(connection)
        writer.json({"dump": FORMAT, "schema": VERSION})
        for table in statements.rows(TableRow, "tables_to_dump"):
            fault_point("dump.table")
            writer.json({"table": table.name, "columns": table.columns})
            with connection.cursor() as cursor:
                with cursor.copy(sql.SQL("copy {} to stdout").format(_named(table.name, table.columns))) as copy:
                    for block in copy:
                        writer.data(bytes(block))
                rows[table.name] = cursor.rowcount
            writer.data(b"")
        # Last: a sequence is not part of the snapshot, and has no value below those of its rows.
        values: dict[str, list[object]] = {}
        for name in statements.values(str, "sequences_to_dump"):
            query = sql.SQL("select last_value, is_called from {}").format(sql.Identifier("nats3", name))
            values[name] = list(connection.execute(query).fetchone() or ())
        writer.json({"sequences": values, "rows": rows})
    return Dumped(rows, writer.end())


def load(url: str, file: IO[bytes]) -> Dumped:
    """Put the content of a dump into an empty catalog of the same version. Raises Conflict if the catalog is not empty,
    CatalogError for a file that is not a whole dump, or whose sums do not add up."""
    reader = DumpReader(file)
    head = reader.json()
    if head.get("dump") != FORMAT:
        raise CatalogError("The file is not a dump of a catalog, or of a newer release", "Upgrade nats3-dagster")
    if head.get("schema") != VERSION:
        raise CatalogError(
            f"The dump is of schema {head.get('schema')}, and this release has {VERSION}",
            "Load it with its release, then migrate the catalog",
        )
    rows: dict[str, int] = {}
    with _transaction(url, "read write") as connection:
        statements = Statements(connection)
        tables = {table.name: table.columns for table in statements.rows(TableRow, "tables_to_dump")}
        _begin(connection, tables)
        for name, columns in tables.items():
            if reader.json() != {"table": name, "columns": columns}:
                raise CatalogError(
                    f"The dump does not have the table {name} of this release", "Load it with its release"
                )
            with connection.cursor() as cursor:
                with cursor.copy(sql.SQL("copy {} from stdin").format(_named(name, columns))) as copy:
                    for block in reader.rows():
                        copy.write(block)
                rows[name] = cursor.rowcount
            fault_point("load.table")
        tail = reader.json()
        digest = reader.end()
        if tail["rows"] != rows:
            raise CatalogError("The dump has other numbers of rows than it says", "Take another dump")
        for name, (value, is_called) in tail["sequences"].items():
            connection.execute("select setval(%s::regclass, %s, %s)", (f"nats3.{name}", value, is_called))
        for name in tables:
            connection.execute(sql.SQL("alter table {} enable trigger user").format(sql.Identifier("nats3", name)))
        if faults := statements.values(str, "sum_faults"):
            raise CatalogError(f"The sums of the dump do not add up: {', '.join(faults[:5])}", "Take another dump")
        fault_point("load.before_commit")
    return Dumped(rows, digest)


def _begin(connection: Connection, tables: dict[str, list[str]]) -> None:
    """Turns triggers off, which sum what is loaded with its sums, and keeps other processes from writing. Raises
    Conflict if a table has a row."""
    for name in tables:
        table = sql.Identifier("nats3", name)
        connection.execute(sql.SQL("alter table {} disable trigger user").format(table))
        if connection.execute(sql.SQL("select from {} limit 1").format(table)).rowcount:
            raise Conflict(f"The catalog is not empty: it has rows in {name}", Next.LOAD_INTO_EMPTY())


def _named(table: str, columns: list[str]) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("{} ({})").format(sql.Identifier("nats3", table), names)


@contextmanager
def _transaction(url: str, mode: LiteralString) -> Generator[Connection]:
    """A transaction on a connection of its own. Raises CatalogError."""
    where = address(url)
    with open_connection(url) as connection:
        try:
            statements = Statements(connection)
            check_version(statements, where)
            statements.run("set_session")
            with connection.transaction():
                connection.execute(sql.SQL("set transaction " + mode))
                share_version(statements, where)
                yield connection
        except psycopg.Error as error:
            raise failed(error, where) from error
