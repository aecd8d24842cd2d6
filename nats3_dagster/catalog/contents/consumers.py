"""Kept consumers: which object has the consumers of a stream as they were at a time.

Invariant: of this hour and the one before it each observation is kept that found a change, of earlier ones the last of
each hour. A row is added after its object was put, and goes before its object does.
"""

from dataclasses import asdict, dataclass
from datetime import datetime

from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.errors import Conflict, Nats3Error, from_json
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.model import Archive, Incarnation
from nats3_dagster.model.consumer import KeptConsumers

_AGAIN = "The next capture keeps them"


@dataclass(slots=True, kw_only=True)
class ProblemRow:
    """A reason for which the consumers of an archive's stream are not kept."""

    archive_id: int
    error: str
    since: datetime


class Consumers:
    """Find what is kept, add to it, let it go."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def newest(
        self, archive: Archive, incarnation: Incarnation, *, to_ns: int | None = None, last_seq: int | None = None
    ) -> KeptConsumers | None:
        """Returns the object that was kept last; `to_ns`: up to this time; `last_seq`: while the stream had no later
        message than this one."""
        with self._session.reading() as sql:
            return sql.row(
                KeptConsumers,
                "newest_consumers",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                to_ns=to_ns,
                last_seq=last_seq,
            )

    def all(self, archive: Archive) -> tuple[KeptConsumers, ...]:
        """All that is kept, the oldest first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(KeptConsumers, "list_consumers", archive=archive.id))

    def add(self, archive: Archive, incarnation: Incarnation, kept: KeptConsumers, *, begun: datetime | None) -> bool:
        """Keep what is in this object, which was put after `begun`. Of hours before the last one only what was observed
        last stays. False, and nothing changes, if it is kept already. Raises Conflict if the object is being removed,
        or the archive was deleted."""
        named = {"stream": incarnation.stream, "created_ns": incarnation.created_ns}
        with self._session.transaction() as sql:
            lock_archive(sql, archive, _AGAIN)
            sql.run("lock_removals_shared", bucket=kept.bucket)
            reserved = sql.value(bool, "object_reserved", bucket=kept.bucket, key=kept.key)
            keys = {"buckets": [kept.bucket], "keys": [kept.key]}
            if reserved or (begun and sql.values(str, "removed_since", **keys, since=begun)):
                raise Conflict(f"The object {kept.key} is being removed from the store", _AGAIN)
            sql.run("supersede_consumers", archive=archive.id, hour=hour_of(kept.observed_ns - HOUR_NS), **named)
            return sql.value_or_none(int, "add_consumers", archive=archive.id, **named, **asdict(kept)) is not None

    def expire(self, archive: Archive) -> int:
        """Let go what no restore of a kept message needs; the number of objects."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive, _AGAIN)
            return sql.value(int, "expire_consumers", archive=archive.id)

    def known(self, bucket: str, keys: list[str]) -> set[str]:
        """Returns those of the keys in this bucket that are or were kept, by any archive."""
        with self._session.reading() as sql:
            return set(sql.values(str, "known_consumers", bucket=bucket, keys=keys))

    def record_problem(self, archive: Archive, error: Nats3Error) -> None:
        """Record why the consumers are not kept, or not exactly."""
        with self._session.transaction() as sql:
            sql.run("record_consumers_problem", archive=archive.id, error=error.to_json())

    def forget_problem(self, archive: Archive) -> None:
        """Record that the consumers are kept."""
        with self._session.transaction() as sql:
            sql.run("forget_consumers_problem", archive=archive.id)

    def problems(self) -> dict[int, Nats3Error]:
        """Returns the errors for which consumers are not kept, or not exactly, by the archive's id."""
        with self._session.reading() as sql:
            return {row.archive_id: from_json(row.error) for row in sql.rows(ProblemRow, "consumers_problems")}
