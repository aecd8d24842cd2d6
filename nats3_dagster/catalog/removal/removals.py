"""Removals: which objects may be deleted from the store.

Invariant: an object is reserved, then deleted, then marked as removed. Postgres refuses to reserve the object of a live
chunk, and refuses a chunk whose object is reserved: a capture takes over an object that the store has under the same
name.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from nats3_dagster.catalog.rows import ObjectRow, SweepRow
from nats3_dagster.catalog.session.locks import lock_connection
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import Archive, DeadObject, Unswept

_PAGE = 1000


class Removals:
    """Find dead objects, claim them, mark them as removed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def dead_objects(self, archive_name: str) -> Iterator[DeadObject]:
        """Objects of retired chunks, manifests of seals and consumers that no longer count, also of deleted archives of
        this name. Those that were removed are left out."""
        with self._session.reading() as sql:
            archives = sql.values(int, "archives_named", name=archive_name)
        for archive in archives:
            yield from self._pages(archive, "removable")
            yield from self._pages(archive, "dead_manifests")
            yield from self._pages(archive, "dead_consumers")

    def _pages(self, archive: int, statement: str) -> Iterator[DeadObject]:
        after, more = 0, True
        while more:
            with self._session.reading() as sql:
                rows = sql.rows(ObjectRow, statement, archive=archive, after=after, limit_to=_PAGE)
            yield from (DeadObject(row.bucket, row.key) for row in rows)
            more = len(rows) == _PAGE
            after = rows[-1].id if rows else after

    def sweepable(
        self, grace_s: int, *, bucket: str | None = None, limit: int | None = None
    ) -> dict[tuple[str, str], int]:
        """The objects, of all buckets or one, that nothing needs for `grace_s` seconds: bucket and key, and bytes; the
        oldest first, and last those that were `refused`. Those of an archive that was deleted as a whole are not among
        them."""
        with self._session.reading() as sql:
            rows = sql.rows(SweepRow, "sweepable", grace_s=grace_s, bucket=bucket, limit_to=limit)
        return {(row.bucket, row.key): row.bytes for row in rows}

    def unswept(self, archive: Archive) -> Unswept:
        """Returns the objects that the archive's retired chunks still have in the store."""
        with self._session.reading() as sql:
            found = sql.row(Unswept, "unswept", archive=archive.id)
        assert found is not None
        return found

    @contextmanager
    def alone(self, bucket: str) -> Generator[None]:
        """Keeps other processes from removing objects of the bucket meanwhile: if one marks an object as removed, and a
        capture puts it again, another one may be about to delete it. The lock has a connection of its own: it ends when
        the process does. Raises Conflict when another process has it for long (session.sql)."""
        with lock_connection(self._session) as connection:
            try:
                statements = Statements(connection)
                statements.run("set_session")
                statements.run("lock_bucket", bucket=bucket)
            except psycopg.Error as error:
                raise failed(error, self._session.where) from error
            yield

    def reserve(self, bucket: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Returns the keys that may be deleted now: no live chunk has them, and none can until `finish`. Call it under
        `alone`: what a process that died has reserved is reserved again."""
        with self._session.transaction() as sql:
            sql.run("lock_removals", bucket=bucket)
            return tuple(sql.values(str, "reserve_removals", bucket=bucket, keys=list(keys)))

    def known(self, bucket: str, keys: Sequence[str], *, with_deleted: bool = True) -> set[str]:
        """Returns those of the keys that a chunk has or had, or that a process is removing now; not those that were
        removed since the chunk was retired, and unless `with_deleted` not those of chunks that went with their
        archive."""
        known: set[str] = set()
        for at in range(0, len(keys), _PAGE):
            with self._session.reading() as sql:
                known.update(
                    sql.values(
                        str, "known_objects", bucket=bucket, keys=list(keys[at : at + _PAGE]), with_deleted=with_deleted
                    )
                )
        return known

    def finish(self, bucket: str, keys: Sequence[str]) -> None:
        """The objects are gone from the store."""
        with self._session.transaction() as sql:
            sql.run("finish_removals", bucket=bucket, keys=list(keys))
            sql.run("forget_refused_removals", bucket=bucket, keys=list(keys))
            sql.run("add_swept_events", bucket=bucket, keys=list(keys))

    def release(self, bucket: str, keys: Sequence[str]) -> None:
        """Gives these reserved keys back: nothing was done about them."""
        with self._session.transaction() as sql:
            sql.run("release_removals", bucket=bucket, keys=list(keys))

    def refused(self, bucket: str, keys: Sequence[str]) -> None:
        """Records that the store refused to delete these reserved keys."""
        with self._session.transaction() as sql:
            sql.run("release_removals", bucket=bucket, keys=list(keys))
            sql.run("add_refused_removals", bucket=bucket, keys=list(keys))
