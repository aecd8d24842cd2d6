"""The schema's version: migrate a database to it, and refuse one that has another.

Invariant: two migrators follow one another (by a lock, in migrations/sql/prepare.sql), all migrations together are one
transaction, and code never writes into a schema it was not written for: each transaction of a program keeps migrations
waiting, and is refused after one.
"""

from functools import partial
from pathlib import Path
from threading import Lock

import psycopg
from psycopg import errors

from nats3_dagster.catalog.session.connection import Connection, address, open_connection
from nats3_dagster.catalog.session.pooler import check_pooler
from nats3_dagster.catalog.session.refusals import failed, incomplete, no_version, not_migrated
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError
from nats3_dagster.steps import Next

# The newest migration in migrations/versions, and the first. A test holds them together.
VERSION = "0102"
_FIRST = "0100"
_MIGRATIONS = Path(__file__).parents[1] / "migrations"
# How long a migration waits for what goes on in the catalog, as Postgres writes it: all transactions wait meanwhile.
_PATIENCE = "30s"
# Alembic's context is one for a process: two threads would take it from each other.
_ALEMBIC = Lock()


def check_version(statements: Statements, where: str) -> None:
    """Raises CatalogError unless the database has this release's schema."""
    version = installed_version(statements, where)
    if version is None:
        raise CatalogError(f"There is no catalog in the database {where}", Next.MAKE_CATALOG())
    if version != VERSION:
        raise CatalogError(f"The catalog in {where} has schema {version}, and this release {VERSION}", Next.MIGRATE())
    if not statements.value(bool, "is_proven"):
        raise incomplete(where, missing_parts(statements))


def share_version(statements: Statements, where: str) -> None:
    """Let no migration happen before the transaction ends. Raises CatalogError if one happened since the process
    connected."""
    if (version := statements.last_value(str, "share_schema")) != VERSION:
        raise _newer(where, version)


def migrate(url: str) -> None:
    """Migrate the database to this release's schema, unless it has it. Raises CatalogError."""
    where = address(url)
    with open_connection(url) as connection:
        if connection.info.server_version < 140000:
            release = connection.info.server_version // 10000
            raise CatalogError(f"Postgres at {where} is release {release}", "Use 14 or newer: older has no multiranges")
        try:
            check_pooler(connection, partial(open_connection, url), where)
            version = installed_version(Statements(connection), where)
            # Also before a migration: expected_parts would no longer name them after it.
            missing = missing_parts(Statements(connection)) if version is not None else []
            owner = Statements(connection).value_or_none(str, "schema_owner")
        except psycopg.Error as error:
            raise failed(error, where) from error
        if missing:
            raise incomplete(where, missing)
        user = connection.info.user
    if version == VERSION:
        return
    try:
        _upgrade(url)
    except psycopg.Error as error:
        raise not_migrated(error, where, user, owner if version else None) from error


def installed_version(statements: Statements, where: str) -> str | None:
    """The version that the database has, None where there is no schema. Raises CatalogError when it is newer than
    VERSION, or a development version's, and where a catalog's tables have no version."""
    version = _asked_version(statements)
    if version is None and statements.value(bool, "has_tables"):
        # Another process may have made them since the first question: they and their version are one transaction.
        version = _asked_version(statements)
        if version is None:
            raise no_version(where)
    if version is not None and version > VERSION:
        raise _newer(where, version)
    if version is not None and version < _FIRST:
        raise CatalogError(
            f"The catalog in {where} has schema {version}, which a development version made", Next.MAKE_CATALOG_ANEW()
        )
    return version


def missing_parts(statements: Statements) -> list[str]:
    """The functions, triggers, constraints, indexes and tables of the schema that are not there."""
    try:
        return statements.values(str, "missing_parts")
    except (errors.UndefinedTable, errors.UndefinedFunction):
        return ["the list of its parts"]


def _newer(where: str, version: str) -> CatalogError:
    return CatalogError(
        f"The catalog in {where} has schema {version}, newer than this release's {VERSION}",
        "Upgrade nats3-dagster here, and start its processes again; nothing was written",
    )


def _asked_version(statements: Statements) -> str | None:
    try:
        return statements.value_or_none(str, "schema_version")
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None


def _upgrade(url: str) -> None:
    # Alembic and SQLAlchemy take 0.4 s to import, and only this needs them.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    engine = create_engine("postgresql+psycopg://", creator=partial(_migrating, url), poolclass=NullPool)
    with _ALEMBIC, engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except DBAPIError as error:
            raise (error.orig if isinstance(error.orig, psycopg.Error) else error) from error


def _migrating(url: str) -> Connection:
    connection = open_connection(url, autocommit=False)
    Statements(connection).run("set_patience", patience=_PATIENCE)
    connection.commit()
    return connection
