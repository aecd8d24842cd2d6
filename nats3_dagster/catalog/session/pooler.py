"""Pooler: a program between nats3 and Postgres that shares server connections among clients, such as PgBouncer.

Invariant: no work begins where statements of one connection reach several server connections: locks of a session, and
the settings that say who works with the catalog, would be another client's.
"""

from collections.abc import Callable

from nats3_dagster.catalog.session.connection import Connection
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError

# A server connection may be taken by another client between two looks, so one look may miss it.
_LOOKS = 5


def check_pooler(connection: Connection, connect: Callable[[], Connection], where: str) -> None:
    """Raises CatalogError unless the connection keeps its server connection. `connect` opens another one like it.

    A pooler gives its clients process ids of its own, so one statement is asked where there is none. Otherwise two
    connections are compared: with `pool_mode = session` each has a server process, and keeps it."""
    first = _server_process(connection)
    if first == connection.info.backend_pid:
        return
    with connect() as other:
        second = _server_process(other)
        for _ in range(_LOOKS):
            now = _server_process(connection), _server_process(other)
            if now != (first, second) or first == second:
                raise CatalogError(
                    f"The connection pooler in front of Postgres at {where} shares its connections, as PgBouncer does "
                    "with pool_mode = transaction",
                    "Use pool_mode = session for nats3's database, or an address without the pooler: nats3 holds locks "
                    "that belong to a connection",
                )


def _server_process(connection: Connection) -> int:
    """The process id of the server that answers now."""
    return Statements(connection).value(int, "server_process")
