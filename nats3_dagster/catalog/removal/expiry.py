"""Expiry: chunks that an archive does not keep any longer leave it.

Invariant: what has expired is decided in the transaction that takes it out, after the archive's row is locked: a hold
that is placed meanwhile is seen, or comes after it.
"""

from dataclasses import dataclass

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.archives.history import note
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive


@dataclass(slots=True, kw_only=True)
class ExpiredHour:
    """The chunks of an hour that are not kept any longer."""

    hour: str
    # Of the chunks.
    ids: list[int]
    # As stored.
    bytes: int
    messages: int


@dataclass(slots=True, kw_only=True)
class Unkept:
    """Hours that should have expired and still have chunks that no hold covers."""

    hours: int
    # None where there are none.
    oldest: str | None
    # Those of them that are not as they were sealed, and so do not expire.
    unsealed: int


class Expiry:
    """Find what has expired, and take it out."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, archive: Archive, end_hour: str, keep_bytes: int | None, limit: int | None) -> list[ExpiredHour]:
        """The hours before `end_hour`, and the oldest ones while more than `keep_bytes` are stored, `limit` at most:
        their chunks that would be taken out."""
        with self._session.reading() as sql:
            return _find(sql, archive, end_hour, keep_bytes, limit)

    def expire(self, archive: Archive, end_hour: str, keep_bytes: int | None, limit: int) -> list[ExpiredHour]:
        """Take these chunks out of the archive; their sequences become gaps of the reason `expired_by_policy`. Objects
        stay: see `Removals`. Raises Conflict when the archive was deleted."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            hours = _find(sql, archive, end_hour, keep_bytes, limit)
            if not hours:
                return []
            chunks = [chunk_id for hour in hours for chunk_id in hour.ids]
            sql.run("retire_chunks", archive=archive.id, chunks=chunks)
            fault_point("expire.retired")
            sql.run("add_removed_gaps", chunks=chunks, reason="expired_by_policy", run_id=current_run(), replay=None)
            note(sql, archive, "expired", _detail(hours))
            fault_point("expire.before_commit")
        return hours

    def unkept(self, archive: Archive, end_hour: str) -> Unkept:
        """The hours before `end_hour` that are still there."""
        with self._session.reading() as sql:
            row = sql.row(Unkept, "unkept", archive=archive.id, end_hour=end_hour)
        assert row is not None
        return row

    def due_archives(self) -> list[str]:
        """The names of the archives that do not keep all, or have hours as `unsealed` finds them: one question for
        all of them."""
        with self._session.reading() as sql:
            return sql.values(str, "archives_to_expire")

    def unsealed(self, archive: Archive, limit: int) -> list[str]:
        """Hours that have expired messages and were not sealed since."""
        with self._session.reading() as sql:
            return sql.values(str, "unsealed_expiries", archive=archive.id, limit_to=limit)


def _find(
    sql: Statements, archive: Archive, end_hour: str, keep_bytes: int | None, limit: int | None
) -> list[ExpiredHour]:
    return sql.rows(
        ExpiredHour, "expired_chunks", archive=archive.id, end_hour=end_hour, keep_bytes=keep_bytes, limit_to=limit
    )


def _detail(hours: list[ExpiredHour]) -> dict[str, object]:
    return {
        "first_hour": hours[0].hour,
        "last_hour": hours[-1].hour,
        "chunks": sum(len(hour.ids) for hour in hours),
        "messages": sum(hour.messages for hour in hours),
        "bytes": sum(hour.bytes for hour in hours),
    }
