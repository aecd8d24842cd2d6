"""Locks that show which runs of Dagster live. A process holds its own for as long as it runs, and loses it when it is
killed."""

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from psycopg import Error

from nats3_dagster.catalog.session.connection import Connection, open_connection
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError

log = logging.getLogger(__name__)
# How often a process asks whether it still has the connection of its lock.
LOOK_S = 5.0


class RunLocks:
    """Hold the lock of a run, and ask for that of another process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def database(self) -> str:
        """Returns the database that the locks are in: the same after a failover, and another one after a restore into
        another server."""
        with self._session.reading() as sql:
            return sql.value(str, "database_identity")

    def is_held(self, run_id: str) -> bool:
        """True if a process shows that it lives and runs this run."""
        with self._session.reading() as sql:
            return sql.value(bool, "is_run_locked", run=run_id)

    @contextmanager
    def holding(self, run_id: str) -> Generator[None]:
        """Shows that this process lives. A lock that was lost with its connection, as after a failover of Postgres, is
        taken again as soon as Postgres answers. Raises CatalogError when it cannot be taken the first time."""
        first, ended = self._locked(run_id), threading.Event()
        keeper = threading.Thread(target=self._hold, args=(run_id, first, ended), name="nats3-run-lock", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join(LOOK_S)

    def _hold(self, run_id: str, connection: Connection, ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            try:
                if connection.closed:
                    connection = self._locked(run_id)
                    log.info("The lock of run %s was taken again", run_id)
                connection.execute("")
            except (CatalogError, Error):
                connection.close()
        with suppress(Error):  # it was lost, and the lock with it
            Statements(connection).run("unlock_all")
        connection.close()

    def _locked(self, run_id: str) -> Connection:
        """A connection that has the lock until it ends. Raises CatalogError."""
        connection = open_connection(self._session.url)
        try:
            statements = Statements(connection)
            statements.run("stay_connected")
            statements.run("lock_run", run=run_id)
        except Error as error:
            connection.close()
            raise failed(error, self._session.where) from error
        return connection
