"""The connections of one process to a catalog. A thread has one of its own for as long as a call lasts.

Invariant: a call is one transaction: all of it is committed, or it raises. A lost connection is replaced between two
calls, never within one.
"""

import os
import select
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from nats3_dagster.actor import actor
from nats3_dagster.catalog.session.connection import Connection, address, open_connection
from nats3_dagster.catalog.session.pooler import check_pooler
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.schema import VERSION, check_version, share_version
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError

MAX_CONNECTIONS = 8
# So long after its last call a connection that has nothing to read is taken to answer.
_SURE_S = 1.0
# How long a call waits for a connection while other threads use all of them: as long as for a lock (session.sql).
_WAIT_S = 60


class Session:
    """Calls and transactions in a catalog of this release's schema. Calls of several threads run side by side.

    It is a pool of its own: psycopg_pool connects in threads of its own, so a refused password or a server that is down
    would be a timeout without a reason."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.where = address(url)
        self._process = os.getpid()
        self._thread = _Thread()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._closed = False
        # By connection: who works with the catalog on it, as Postgres knows it.
        self._actors: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        # Each with the time of its last call. The one used last is taken first: a process with one thread has one
        # connection.
        self._idle = [(self._open(), time.monotonic())]

    def close(self) -> None:
        """Close the connections; those that other threads use are closed when their calls end."""
        with self._lock:
            self._closed = True
        self.rest()

    def rest(self) -> None:
        """Close the connections that no call uses; the next call opens one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    @contextmanager
    def reading(self) -> Generator[Statements]:
        """Yields a `Statements` for one statement. Inside another call of the same thread it runs on that one's
        connection. Raises CatalogError."""
        try:
            if self._thread.statements is not None:
                yield self._thread.statements
                return
            connection = self._borrow()
            self._thread.statements = Statements(connection)
            try:
                yield self._thread.statements
            finally:
                self._thread.statements = None
                self._give_back(connection)
        except psycopg.Error as error:
            raise failed(error, self.where) from error

    @contextmanager
    def transaction(self) -> Generator[Statements]:
        """All that is done inside is committed at its end, or nothing is. Inside another one it is a part of that."""
        with self.reading() as statements:
            is_part = statements.connection.info.transaction_status != TransactionStatus.IDLE
            with statements.connection.transaction():
                if not is_part:
                    share_version(statements, self.where)
                yield statements

    def _borrow(self) -> Connection:
        if os.getpid() != self._process:
            raise CatalogError("The catalog was opened before this process was forked", "Open it in each process")
        if not self._free.acquire(timeout=_WAIT_S):
            raise CatalogError(
                f"All {MAX_CONNECTIONS} connections of this process to Postgres at {self.where} are in use",
                "Look in pg_stat_activity for what they wait for",
            )
        try:
            with self._lock:
                connection, used_at = self._idle.pop() if self._idle else (None, 0.0)
            if connection is None:
                return self._open()
            sure = time.monotonic() - used_at < _SURE_S and not _has_news(connection)
            if not sure and not _answers(connection):
                return self._open()
            try:
                self._name_actor(connection)
            except BaseException:
                connection.close()
                raise
            return connection
        except BaseException:
            self._free.release()
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            keep = not self._closed and connection.info.transaction_status == TransactionStatus.IDLE
            if keep:
                self._idle.append((connection, time.monotonic()))
        if not keep:
            connection.close()
        self._free.release()

    def _open(self) -> Connection:
        connection = open_connection(self.url)
        try:
            statements = Statements(connection)
            check_pooler(connection, partial(open_connection, self.url), self.where)
            check_version(statements, self.where)
            statements.run("set_session")
            statements.run("stay_connected")
            self._name_actor(connection)
        except psycopg.Error as error:
            connection.close()
            raise failed(error, self.where) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _name_actor(self, connection: Connection) -> None:
        """Tell Postgres who works on the connection from now on, unless it knows."""
        if self._actors.get(connection) != (now := actor()):
            Statements(connection).run("set_actor", actor=now)
            self._actors[connection] = now


class _Thread(threading.local):
    """The pool's connection of a thread."""

    # Those of its connection while a call of this thread lasts.
    statements: Statements | None = None


def _has_news(connection: Connection) -> bool:
    """True if data came on a connection without a request: above all, that the server closed it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _answers(connection: Connection) -> bool:
    """True if the connection can be used. Only an answer shows that the server's host did not vanish since the last
    call, and that the schema is still this release's: 0.1 ms on one host. If not, it is closed, and opening another one
    tells why."""
    try:
        if Statements(connection).value_or_none(str, "schema_version") == VERSION:
            return True
    except psycopg.Error:
        pass
    connection.close()
    return False
