"""The rights of a role that captures and replays, and may not change the schema.

Invariant: a grant of the migration's own role or of one above it is refused: it would take nothing away.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from nats3_dagster.catalog.session.connection import Connection, address, open_connection
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.errors import OperatorError

_HERE = Path(__file__).parents[1]
_DELETES = re.compile(r"\bdelete from nats3\.(\w+)", re.IGNORECASE)
# Tables to which the role may only add rows: what happened, and who did it. nats3.forget_events forgets some.
AUDITS = ("event", "erasure", "erased_range")
# The Iceberg catalog: its own client deletes rows there.
_ICEBERG = ("iceberg_tables", "iceberg_namespace_properties")


def grant(url: str, role: str, dagster: Sequence[str] = ()) -> None:
    """Let the role use the catalog, and the tables `dagster` in the schema public, as the owner of them. Again changes
    nothing; after a migration it is needed again. Raises OperatorError for a role that does not fit, CatalogError."""
    where = address(url)
    with open_connection(url) as connection:
        try:
            with connection.transaction():
                _check(connection, role)
                for statement in _statements(connection, role, dagster):
                    connection.execute(statement)
        except psycopg.Error as error:
            raise failed(error, where) from error


def deleted_from() -> list[str]:
    """The tables from which our statements delete rows, by those statements: what is listed apart is forgotten."""
    files = [*_HERE.glob("sql/*.sql"), *_HERE.glob("migrations/sql/*.sql")]
    return sorted({table for file in files for table in _DELETES.findall(file.read_text())} - {*AUDITS})


def _check(connection: Connection, role: str) -> None:
    row = connection.execute(
        "select rolsuper, pg_has_role(r.oid, n.nspowner, 'member') from pg_roles r, pg_namespace n "
        "where r.rolname = %s and n.nspname = 'nats3'",
        [role],
    ).fetchone()
    if row is None:
        create = f"CREATE ROLE \"{role}\" LOGIN PASSWORD '...'"
        raise OperatorError(f"Postgres has no role {role}", f"As an administrator, run there: {create}")
    if any(row):
        raise OperatorError(
            f"The role {role} may change the schema by what it is: a superuser, or the schema's owner",
            "Grant another role; migrate as this one",
        )


def _statements(connection: Connection, role: str, dagster: Sequence[str]) -> list[sql.Composed]:
    to = sql.Identifier(role)
    database = sql.Identifier(connection.info.dbname)
    statements = [
        sql.SQL("grant connect on database {} to {}").format(database, to),
        sql.SQL("grant usage on schema nats3, public to {}").format(to),
        # What an earlier release granted goes.
        sql.SQL("revoke all on all tables in schema nats3 from {}").format(to),
        sql.SQL("grant select, insert, update on all tables in schema nats3 to {}").format(to),
        sql.SQL("revoke insert, update on nats3.alembic_version from {}").format(to),
        *(sql.SQL("revoke update on {} from {}").format(sql.Identifier("nats3", table), to) for table in AUDITS),
        sql.SQL("grant usage on all sequences in schema nats3 to {}").format(to),
        sql.SQL("grant execute on all functions in schema nats3 to {}").format(to),
    ]
    for table in (*deleted_from(), *_ICEBERG):
        statements.append(sql.SQL("grant delete on {} to {}").format(sql.Identifier("nats3", table), to))
    for table in dagster:
        name = sql.Identifier("public", table)
        statements.append(sql.SQL("grant select, insert, update, delete on {} to {}").format(name, to))
    owned = connection.execute(
        "select s.relname from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S' "
        "join pg_class t on t.oid = d.refobjid where t.relnamespace = 'public'::regnamespace and t.relname = any(%s)",
        [list(dagster)],
    ).fetchall()
    for (sequence,) in owned:
        statements.append(sql.SQL("grant usage on sequence {} to {}").format(sql.Identifier("public", sequence), to))
    return statements
