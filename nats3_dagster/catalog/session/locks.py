"""Locks: what one process at a time does for an archive. Each is held by a connection of its own, and ends with it."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from psycopg import Error

from nats3_dagster.catalog.session.connection import Connection, open_connection
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive

# How often a lock that another process has is asked for.
_ASK_AGAIN_S = 0.2


@contextmanager
def lock_connection(session: Session) -> Generator[Connection]:
    """A connection of its own for locks, which end with it, and so with the process. Where no error ends them, they are
    released before it is closed: Postgres notices only later that a connection was closed."""
    with open_connection(session.url) as connection:
        try:
            Statements(connection).run("stay_connected")
        except Error as error:
            raise failed(error, session.where) from error
        yield connection
        with suppress(Error):  # it was lost, and the locks with it
            Statements(connection).run("unlock_all")


class Locks:
    """Take messages, create an archive, export an hour, write to a copy: alone."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @contextmanager
    def taking(self, archive: Archive, patience_s: float) -> Generator[None]:
        """Keeps other processes from taking messages for the archive meanwhile. Raises Conflict when another process
        does for longer than `patience_s`."""
        busy = Conflict(
            f"Another process takes messages for archive {archive.name}", "Wait for it: it takes all there are"
        )
        with self._alone("try_taking", patience_s, busy, archive=archive.id):
            yield

    @contextmanager
    def creating(self, name: str, patience_s: float) -> Generator[None]:
        """Keeps other processes from creating an archive of this name meanwhile, or its consumer in the stream, and
        from removing the owner objects of deleted ones. Raises Conflict when another process does for longer than
        `patience_s`."""
        busy = Conflict(f"Another process is creating or purging archive {name}", "Wait for it, or end it first")
        with self._alone("try_creating", patience_s, busy, name=name):
            yield

    @contextmanager
    def exporting(self, archive: Archive, export: str, hour: str, patience_s: float) -> Generator[Callable[[], None]]:
        """Let no other process write the files of an export's hour meanwhile. What it gives raises Conflict once the
        connection that holds the lock is lost: another process may have it then. Raises Conflict when another process
        holds it for longer than `patience_s`."""
        busy = Conflict(f"Another process exports {hour} of {export}", "Wait for it: it makes the same files")
        with self._alone("try_exporting", patience_s, busy, archive=archive.id, name=export, hour=hour) as lock:

            def check_alone() -> None:
                try:
                    lock.execute("")
                except Error as error:
                    raise Conflict(
                        f"The lock of {hour} of {export} was lost with its connection to Postgres",
                        "Run it again: it makes the same files",
                    ) from error

            yield check_alone

    @contextmanager
    def copying(self, bucket: str, patience_s: float) -> Generator[None]:
        """Keeps other processes from writing to the copy meanwhile: one that removes an object late would take one that
        was put again. Raises Conflict when another process has it for longer than `patience_s`."""
        busy = Conflict(f"Another process copies into the bucket {bucket}", "Wait for it, then try again")
        with self._alone("try_copying", patience_s, busy, bucket=bucket):
            yield

    @contextmanager
    def rewriting(self, archive: Archive, patience_s: float) -> Generator[None]:
        """Keeps erasures of the archive waiting while its messages are written into other objects: one that was read
        before an erasure would be written after it. Several processes may. Raises Conflict when an erasure runs for
        longer than `patience_s`."""
        busy = Conflict(
            f"Messages of archive {archive.name} are being erased", "Wait until that has ended, then try again"
        )
        with self._alone("try_rewriting", patience_s, busy, archive=archive.id):
            yield

    @contextmanager
    def erasing(self, archive: Archive, patience_s: float) -> Generator[None]:
        """Keeps other erasures of the archive, and what writes its messages into other objects, waiting. Raises
        Conflict when another process does one of these for longer than `patience_s`."""
        busy = Conflict(
            f"Messages of archive {archive.name} are being compacted, repaired or erased by another process",
            "Nothing was changed by this one. Wait until that has ended, then try again",
        )
        with self._alone("try_erasing", patience_s, busy, archive=archive.id):
            yield

    @contextmanager
    def restoring(self, stream: str, patience_s: float) -> Generator[None]:
        """Keeps other processes from restoring a stream of this name meanwhile: what is there of one that was cut can
        be deleted. Raises Conflict when another process does for longer than `patience_s`."""
        busy = Conflict(f"Another process restores stream {stream}", "Wait for it, or restore under another name")
        with self._alone("try_restoring", patience_s, busy, name=stream):
            yield

    @contextmanager
    def _alone(self, statement: str, patience_s: float, busy: Conflict, **values: object) -> Generator[Connection]:
        """Hold a lock. Yields its connection; the lock ends with it, and so with the process."""
        until = time.monotonic() + patience_s
        with lock_connection(self._session) as connection:
            try:
                while not Statements(connection).value(bool, statement, **values):
                    if time.monotonic() > until:
                        raise busy
                    time.sleep(_ASK_AGAIN_S)
            except Error as error:
                raise failed(error, self._session.where) from error
            yield connection
