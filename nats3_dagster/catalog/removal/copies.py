"""Copies: objects that are missing in the other buckets of archives, and those to be removed there.

Invariant: triggers add a task in the transaction that adds a chunk or a seal, or marks an object as removed
(migrations/sql/0100_copies.sql). A task goes only when its object is as it says, so what is missing is never forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.model import Archive


@dataclass(slots=True, kw_only=True)
class CopyTask:
    """An object that is missing in a copy, or is to be removed there."""

    # The copy's bucket, and the key in both.
    bucket: str
    key: str
    # The archive's id.
    archive: int
    hour: str
    # The bucket that has the object.
    source: str
    # Of the object, in hex; and its bytes.
    sha256: str
    stored_bytes: int
    # Whether it is to be removed from the copy.
    removes: bool


@dataclass(slots=True, kw_only=True)
class CopyLag:
    """Objects that are missing in a copy of an archive."""

    # The copy's bucket.
    bucket: str
    # Objects that are missing there, and their bytes.
    objects: int
    bytes: int
    # Since when the oldest of them is missing; None where none is.
    oldest: datetime | None
    # Objects that are to be removed there.
    removals: int


class Copies:
    """Find what is to be copied, mark it as done."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tasks(self, archive: Archive, bucket: str, limit: int, hour: str | None = None) -> list[CopyTask]:
        """The objects that are missing in a copy or are to be removed there; of one hour only what is missing."""
        with self._session.reading() as sql:
            return list(sql.rows(CopyTask, "copy_tasks", archive=archive.id, bucket=bucket, hour=hour, limit_to=limit))

    def removals(self, archive: Archive, bucket: str, limit: int) -> list[CopyTask]:
        """The objects that are to be removed from a copy."""
        with self._session.reading() as sql:
            return list(sql.rows(CopyTask, "copy_removals", archive=archive.id, bucket=bucket, limit_to=limit))

    def waits(self, bucket: str, key: str) -> bool:
        """True if the object has yet to be put into the copy, or removed there."""
        with self._session.reading() as sql:
            return sql.value(bool, "copy_waits", bucket=bucket, key=key)

    def due_archives(self) -> list[str]:
        """The archives whose copies miss something, or have to lose something; deleted ones are left out."""
        with self._session.reading() as sql:
            return sql.values(str, "copying_due")

    def lags(self, archive: Archive) -> dict[str, CopyLag]:
        """The missing objects of each copy, by its bucket; a complete copy is left out."""
        with self._session.reading() as sql:
            return {row.bucket: row for row in sql.rows(CopyLag, "copy_lags", archive=archive.id)}

    def done(self, tasks: Sequence[CopyTask]) -> None:
        """The copies are as these tasks say."""
        self._done([(task.bucket, task.key, task.removes) for task in tasks])

    def put(self, archive: Archive, key: str) -> None:
        """All copies of the archive have this object, which the catalog has as well."""
        self._done([(bucket, key, False) for bucket in archive.spec.copies])

    def _done(self, objects: Sequence[tuple[str, str, bool]]) -> None:
        if objects:
            buckets, keys, removes = (list(column) for column in zip(*objects, strict=True))
            with self._session.transaction() as sql:
                sql.run("copy_done", buckets=buckets, keys=keys, removes=removes)
