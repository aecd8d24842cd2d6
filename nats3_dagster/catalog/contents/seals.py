"""Seals: hours that are complete, each with a manifest in the store that proves it.

Invariant: an hour is sealed as it was read, or not at all. A seal is valid until the hour's chunks or its
losses change.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.contents.hours import Hours
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive, HourPart, Incarnation, Seal, SealedHour


@dataclass(slots=True, kw_only=True)
class UnsealedRow:
    """An hour as its next seal has to have it: units as in Seal."""

    revision: int
    chunks: int
    losses: int
    number: int


class Seals:
    """Ask for hours to seal, add a seal, list them."""

    def __init__(self, session: Session, hours: Hours) -> None:
        self._session = session
        self._hours = hours

    def unsealed(
        self,
        archive: Archive,
        first: str,
        last: str,
        *,
        bound: tuple[Incarnation, int] | None = None,
        limit: int = 1000,
    ) -> tuple[str, ...]:
        """The complete hours from `first` to `last` that have no seal or changed since theirs, ascending; hours without
        messages too. `bound`: the last sequence that the archive must account for of an incarnation; without it, that
        is the last one it has. An hour that touches a hole is not complete."""
        incarnation, last_seq = bound or (None, None)
        with self._session.reading() as sql:
            hours = sql.values(
                str,
                "unsealed_hours",
                archive=archive.id,
                stream=incarnation and incarnation.stream,
                created_ns=incarnation and incarnation.created_ns,
                bound=last_seq,
                first_hour=first,
                last_hour=last,
                limit_to=limit,
            )
        return tuple(hours)

    def next(self, archive: Archive, hour: str) -> tuple[UnsealedRow, tuple[HourPart, ...]]:
        """The hour as its next seal has to have it, and what it accounts for."""
        with self._session.transaction() as sql:
            return _unsealed(sql, archive, hour), self._hours.parts(archive, hour)

    def add(self, archive: Archive, seal: Seal, *, begun: datetime) -> None:
        """Add a seal whose manifest was put after `begun`. Raises Conflict when the hour changed meanwhile, another
        process sealed it, or the object is being removed."""
        again = "Nothing is lost; the next seal takes the hour as it is then"
        with self._session.transaction() as sql:
            lock_archive(sql, archive, again)
            sql.run("lock_removals_shared", bucket=seal.bucket)
            reserved = sql.value(bool, "object_reserved", bucket=seal.bucket, key=seal.key)
            if reserved or sql.values(str, "removed_since", buckets=[seal.bucket], keys=[seal.key], since=begun):
                raise Conflict(f"The object {seal.key} is being removed from the store", again)
            # A higher number is right: the bucket has manifests that the catalog does not know.
            if _unsealed(sql, archive, seal.hour).number > seal.number:
                raise Conflict(f"Hour {seal.hour} of archive {archive.name} was sealed by another process", again)
            if sql.value_or_none(int, "add_seal", archive=archive.id, **asdict(seal)) is None:
                raise Conflict(f"Hour {seal.hour} of archive {archive.name} changed while it was sealed", again)

    def sealed_keys(self, bucket: str, keys: Sequence[str]) -> set[str]:
        """Returns the keys in this bucket that a seal has, of any archive and valid or not."""
        with self._session.reading() as sql:
            return set(sql.values(str, "sealed_keys", bucket=bucket, keys=[*keys]))

    def select(self, archive: Archive, *, hours: Sequence[str] | None = None) -> tuple[Seal, ...]:
        """The newest seal of each hour, ascending, valid or not (see `Seal.valid`)."""
        first, last = (min(hours), max(hours)) if hours else (None, None)
        chosen = None if hours is None else [*hours]
        with self._session.reading() as sql:
            return tuple(
                sql.rows(Seal, "list_seals", archive=archive.id, first_hour=first, last_hour=last, hours=chosen)
            )

    def hours(self, archive: Archive) -> dict[str, SealedHour]:
        """The hours that are as they were sealed."""
        with self._session.reading() as sql:
            return {row.hour: row for row in sql.rows(SealedHour, "sealed_hours", archive=archive.id)}

    def messages(self, archive: Archive) -> int:
        """The sum of the messages of all sealed hours, each as it was sealed last."""
        with self._session.reading() as sql:
            return sql.value(int, "sealed_messages", archive=archive.id)


def _unsealed(sql: Statements, archive: Archive, hour: str) -> UnsealedRow:
    (row,) = sql.rows(UnsealedRow, "hour_to_seal", archive=archive.id, hour=hour)
    return row
