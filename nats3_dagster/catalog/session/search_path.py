"""Search path: for connections of a library that names our tables without their schema.

Invariant: it is set after connecting. As an option of the connection's start a connection pooler refuses it, or leaves
it out.
"""

from typing import Any

from sqlalchemy import Engine, event

from nats3_dagster.catalog.session.connection import Connection
from nats3_dagster.catalog.session.statements import Statements


def search_schema(engine: Engine) -> None:
    """Lets each connection that the engine makes from now on find the tables of our schema first."""

    def search(connection: Connection, _: Any) -> None:
        # In a transaction the path would be set back with it.
        connection.autocommit = True
        Statements(connection).run("search_schema")
        connection.autocommit = False

    event.listen(engine, "connect", search)
