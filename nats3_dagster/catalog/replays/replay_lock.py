"""The lock of the process that drives a replay."""

import time

import psycopg

from nats3_dagster.catalog.session.connection import Connection
from nats3_dagster.catalog.session.refusals import failed


class ReplayLock:
    """A connection of its own, on which the process is asked to pause."""

    def __init__(self, connection: Connection, replay_id: str, where: str) -> None:
        self._connection, self._replay_id, self._where = connection, replay_id, where

    def wait(self, seconds: float) -> bool:
        """True if a pause is requested within this number of seconds. Raises CatalogError at once when the connection
        is lost: another process may then have the lock."""
        until = time.monotonic() + seconds
        try:
            self._connection.execute("")
            while True:
                rest = max(0.0, until - time.monotonic())
                asked = list(self._connection.notifies(timeout=rest, stop_after=1))
                if any(notice.payload == self._replay_id for notice in asked):
                    return True
                if not asked and time.monotonic() >= until:
                    return False
        except psycopg.Error as error:
            raise failed(error, self._where) from error
