"""Checks whether a Postgres can hold the catalog, and how durable its commits are. It needs no catalog, and writes
none."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import psycopg

from nats3_dagster.catalog.session.connection import address, open_connection
from nats3_dagster.catalog.session.pooler import check_pooler
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.schema import VERSION, installed_version, missing_parts
from nats3_dagster.catalog.session.statements import Statements


@dataclass(frozen=True, slots=True)
class Health:
    """The facts that `nats3 doctor` asks a Postgres for."""

    # Host, port and database.
    where: str
    # As in `18.1`, and server_version_num (180001).
    server: str
    number: int
    # The extension btree_gist: in this database, and on this server.
    gist_installed: bool
    gist_available: bool
    # Whether what is committed survives a crash of the server.
    durable: bool
    # Whether it has standbys, and may lose what is committed when one of them takes over.
    forgets_on_failover: bool
    # Whether it is a standby, and whether transactions of this connection are read-only by a setting.
    standby: bool
    read_only: bool
    # The newest migration that the database has, None for none.
    schema: str | None
    # Parts of the schema that are not there, as after a restore without the extension.
    missing: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _HealthRow:
    server: str
    number: int
    fsync: str
    synchronous_commit: str
    synchronous_standby_names: str
    sync_states: list[str]
    standby: bool
    read_only: bool
    gist_installed: bool
    gist_available: bool


def health(url: str) -> Health:
    """Raises CatalogError when it cannot be asked, or has a schema newer than this release's."""
    where = address(url)
    with open_connection(url) as connection:
        try:
            check_pooler(connection, partial(open_connection, url), where)
            statements = Statements(connection)
            (row,) = statements.rows(_HealthRow, "health")
            schema = installed_version(statements, where)
            missing = missing_parts(statements) if schema == VERSION else []
        except psycopg.Error as error:
            raise failed(error, where) from error
    return Health(
        where=where,
        server=row.server,
        number=row.number,
        gist_installed=row.gist_installed,
        gist_available=row.gist_available,
        durable=row.fsync == "on" and row.synchronous_commit != "off",
        forgets_on_failover=forgets_on_failover(row.synchronous_commit, row.synchronous_standby_names, row.sync_states),
        standby=row.standby,
        read_only=row.read_only,
        schema=schema,
        missing=tuple(missing),
    )


def forgets_on_failover(synchronous_commit: str, synchronous_standby_names: str, sync_states: Sequence[str]) -> bool:
    """True if a standby that takes over may not have the last commits, because no commit waits for it. `sync_states`:
    of the standbys, as pg_stat_replication has them."""
    unwaited = not synchronous_standby_names and all(state == "async" for state in sync_states)
    return bool(sync_states) and (unwaited or synchronous_commit in ("local", "off"))
