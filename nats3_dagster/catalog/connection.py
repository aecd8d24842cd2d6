"""A connection to Postgres and the statements of sql/ by name.

The rule kept here: the address as given goes to libpq and nowhere else, because a password may be in it.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import aiosql
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import namedtuple_row

from nats3_dagster.catalog.refusals import cannot_connect
from nats3_dagster.errors import CatalogError

Connection = psycopg.Connection[Any]
# A host that vanished is noticed within a minute; the system's own keepalive begins after two hours.
_PATIENCE = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class Statements:
    """The statements of sql/*.sql, bound to a connection. Rows are an iterator: reading it runs the statement."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(_queries(), name), self.connection)

    def text(self, name: str) -> Any:
        """The SQL itself, for COPY."""
        return getattr(_queries(), name).sql


def open_connection(url: str, *, autocommit: bool = True) -> Connection:
    """A connection, whatever is in the database. Raises CatalogError."""
    where = address(url)
    given = conninfo_to_dict(url)
    patience: dict[str, Any] = {name: value for name, value in _PATIENCE.items() if name not in given}
    try:
        # prepare_threshold: a plan made once for all values would not use the index that fits the filters given.
        return psycopg.connect(
            url, autocommit=autocommit, row_factory=namedtuple_row, prepare_threshold=None, **patience
        )
    except psycopg.Error as error:
        raise cannot_connect(error, where) from error


def address(url: str) -> str:
    """`host:port/database` of a connection string. Raises CatalogError when it is none."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # Not chained: libpq repeats what it could not parse.
        raise CatalogError(
            "NATS3_POSTGRES_URL is not the address of a Postgres",
            "Write it as postgresql://user:password@host:5432/database",
        ) from None
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    return f"{host}:{given.get('port') or 5432}/{given.get('dbname') or given.get('user') or ''}"


@cache
def _queries() -> Any:
    return aiosql.from_path(Path(__file__).parent / "sql", "psycopg")  # pyright: ignore[reportUnknownMemberType]
