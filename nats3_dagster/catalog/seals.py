"""Seals: hours of which a manifest in the store says, and proves, that they are complete.

The rule kept here: an hour is sealed as it was read, or not at all; it stays sealed until one of its chunks changes.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nats3_dagster.catalog.hours import Hours
from nats3_dagster.catalog.rows import seal_of
from nats3_dagster.catalog.session import Session
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive, HourWindow, Incarnation, Seal


class Seals:
    """Ask for hours to seal, add a seal, list them."""

    def __init__(self, session: Session, hours: Hours) -> None:
        self._session = session
        self._hours = hours

    def unsealed(
        self, archive: Archive, first: str, last: str, *, bound: tuple[Incarnation, int] | None = None,
        limit: int = 1000,
    ) -> tuple[str, ...]:  # fmt: skip
        """The complete hours from `first` to `last` that have no seal or changed since theirs, ascending; hours without
        messages too. `bound`: the last sequence that the archive must account for of an incarnation; without it, that
        is the last one it has. An hour that touches a hole is not complete."""
        of, upto = bound or (None, None)
        with self._session.reading() as sql:
            rows = sql.unsealed_hours(
                archive=archive.id, stream=of and of.stream, created_ns=of and of.created_ns, bound=upto,
                first_hour=first, last_hour=last, limit_to=limit,
            )  # fmt: skip
            return tuple(row.hour for row in rows)

    def next(self, archive: Archive, hour: str) -> tuple[int, int, int, tuple[HourWindow, ...]]:
        """The hour's revision, its number of chunks, the number that its next seal has, and what it accounts for."""
        with self._session.transaction() as sql:
            row = sql.hour_to_seal(archive=archive.id, hour=hour)
            return row.revision, row.chunks, row.number, self._hours.windows(archive, hour)

    def add(self, archive: Archive, seal: Seal, *, begun: datetime) -> None:
        """Keep a seal whose manifest was put after `begun`. Raises Conflict when the hour changed meanwhile, another
        process sealed it, or the object is being removed."""
        again = "Nothing is lost; the next seal takes the hour as it is then"
        with self._session.transaction() as sql:
            if sql.lock_archive(archive=archive.id) is None:
                raise Conflict(f"Archive {archive.name} was deleted", again)
            sql.lock_removals_shared()
            claimed = sql.object_claimed(bucket=seal.bucket, key=seal.key)
            if claimed or sql.removed_since(buckets=[seal.bucket], keys=[seal.key], since=begun):
                raise Conflict(f"The object {seal.key} is being removed from the store", again)
            if sql.hour_to_seal(archive=archive.id, hour=seal.hour).number != seal.number:
                raise Conflict(f"Hour {seal.hour} of archive {archive.name} was sealed by somebody else", again)
            if sql.add_seal(archive=archive.id, run_id=seal.dagster_run_id, **_columns(seal)) is None:
                raise Conflict(f"Hour {seal.hour} of archive {archive.name} changed while it was sealed", again)

    def select(self, archive: Archive, *, hours: Sequence[str] | None = None) -> tuple[Seal, ...]:
        """The newest seal of each hour, ascending; those that no longer hold too (see `Seal.valid`)."""
        first, last = (min(hours), max(hours)) if hours else (None, None)
        with self._session.reading() as sql:
            rows = list(sql.list_seals(archive=archive.id, first_hour=first, last_hour=last))
        wanted = None if hours is None else set(hours)
        return tuple(seal_of(row) for row in rows if wanted is None or row.hour in wanted)


def _columns(seal: Seal) -> dict[str, Any]:
    names = ("hour", "number", "revision", "chunks", "messages", "gaps", "bucket", "key", "sha256", "stored_bytes")
    return {name: getattr(seal, name) for name in names}
