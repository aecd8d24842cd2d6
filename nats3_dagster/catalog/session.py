"""What all parts of the catalog stand on: one connection that a process may keep for hours.

The rule kept here: between two calls a lost connection is made again, within one never: a call is one transaction, and
either all of it is kept or it raises.
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import RLock

import psycopg

from nats3_dagster.catalog.connection import Connection, Statements, address, open_connection
from nats3_dagster.catalog.refusals import failed
from nats3_dagster.catalog.schema import check_version


class Session:
    """A connection to a catalog of this release's schema. Calls of several threads follow one another."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.where = address(url)
        self._lock = RLock()
        self._depth = 0
        self._connection = self._open()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def reading(self) -> Generator[Statements]:
        """For one statement. Raises CatalogError."""
        with self._lock:
            if self._depth == 0:
                self._revive()
            self._depth += 1
            try:
                yield Statements(self._connection)
            except psycopg.Error as error:
                raise failed(error, self.where) from error
            finally:
                self._depth -= 1

    @contextmanager
    def transaction(self) -> Generator[Statements]:
        """All that is done inside is committed at its end, or nothing is. Inside another one it is a part of that."""
        with self.reading() as statements, self._connection.transaction():
            yield statements

    def _revive(self) -> None:
        if not self._connection.closed:
            with suppress(psycopg.OperationalError):
                # Only an answer shows that the server was not restarted since the last call: 0.1 ms on one host.
                self._connection.execute("")
                return
            self._connection.close()
        self._connection = self._open()

    def _open(self) -> Connection:
        connection = open_connection(self.url)
        try:
            statements = Statements(connection)
            check_version(statements, self.where)
            statements.set_session()
        except psycopg.Error as error:
            connection.close()
            raise failed(error, self.where) from error
        except BaseException:
            connection.close()
            raise
        return connection
