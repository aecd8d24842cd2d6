"""Whether a Postgres can hold the catalog, and how much it promises to whoever commits there.

The rule kept here: it only asks, and it asks without a catalog being there.
"""

from dataclasses import dataclass

import psycopg

from nats3_dagster.catalog.connection import Statements, address, open_connection
from nats3_dagster.catalog.refusals import failed
from nats3_dagster.catalog.schema import schema_found


@dataclass(frozen=True, slots=True)
class Health:
    """`number` is server_version_num (180001). `schema` is the migration that the database has, None for none.
    `durable`: what is committed survives a crash of the server. `standby`: it takes no writes."""

    where: str
    server: str
    number: int
    gist_installed: bool
    gist_available: bool
    durable: bool
    standby: bool
    schema: str | None


def health(url: str) -> Health:
    """Raises CatalogError when it cannot be asked, or has a schema newer than this release's."""
    where = address(url)
    with open_connection(url) as connection:
        try:
            statements = Statements(connection)
            row = statements.health()
            schema = schema_found(statements, where)
        except psycopg.Error as error:
            raise failed(error, where) from error
    return Health(
        where, row.server, row.number, row.gist_installed, row.gist_available,
        row.fsync == "on" and row.synchronous_commit != "off", row.standby, schema,
    )  # fmt: skip
