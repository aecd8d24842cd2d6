"""Removals: which objects may be deleted from the store, and that nobody brings them back meanwhile.

The rule kept here: claim, delete the object, finish. Postgres refuses a claim of a live chunk's object, and a chunk
whose object is claimed: a capture finds objects of an equal name and content in the store and takes them for its own.
"""

from collections.abc import Iterator, Sequence

from nats3_dagster.catalog.session import Session
from nats3_dagster.model import DeadObject

_PAGE = 1000


class Removals:
    """Find dead objects, claim them, say that they are gone."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def dead_objects(self, archive_name: str) -> Iterator[DeadObject]:
        """Objects of chunks that were retired, manifests that tell an earlier state, and both of archives of this name
        that were deleted, as far as they are not removed."""
        with self._session.reading() as sql:
            archives = [row.id for row in sql.archives_named(name=archive_name)]
        for archive in archives:
            yield from self._pages(archive, "removable")
            yield from self._pages(archive, "dead_manifests")

    def _pages(self, archive: int, statement: str) -> Iterator[DeadObject]:
        after, more = 0, True
        while more:
            with self._session.reading() as sql:
                rows = list(getattr(sql, statement)(archive=archive, after=after, limit_to=_PAGE))
            yield from (DeadObject(row.bucket, row.key) for row in rows)
            more = len(rows) == _PAGE
            after = rows[-1].id if rows else after

    def claim(self, bucket: str, keys: Sequence[str]) -> tuple[str, ...]:
        """Those of the keys that may be deleted now: no live chunk has them, and none can until `finish_removals`."""
        with self._session.transaction() as sql:
            sql.lock_removals()
            return tuple(row.key for row in sql.claim_removals(bucket=bucket, keys=list(keys)))

    def finish(self, bucket: str, keys: Sequence[str]) -> None:
        """The objects are gone from the store."""
        with self._session.transaction() as sql:
            sql.finish_removals(bucket=bucket, keys=list(keys))
