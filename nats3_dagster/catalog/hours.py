"""Hours: the live chunks summed by hour, kept by triggers; no chunk is read."""

from itertools import groupby

from nats3_dagster.catalog.session import Session
from nats3_dagster.model import Archive, HourSummary, HourWindow, Incarnation, SeqRange

_SUMS = ("chunks", "messages", "absent", "payload_bytes", "stored_bytes")


class Hours:
    """List hours, and the sequences that each accounts for."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def select(
        self, archive: Archive, *, first: str | None = None, last: str | None = None, since: int | None = None,
        limit: int | None = None, offset: int = 0,
    ) -> tuple[HourSummary, ...]:  # fmt: skip
        """Hours that have live chunks, ascending: those from `first` to `last`, both included, and changed after the
        archive's revision `since`."""
        with self._session.reading() as sql:
            rows = sql.list_hours(
                archive=archive.id, first_hour=first, last_hour=last, since_revision=since, limit_to=limit, skip=offset
            )
            by_hour = [(hour, list(group)) for hour, group in groupby(rows, lambda row: row.hour)]
        return tuple(
            HourSummary(
                hour, *(sum(getattr(row, name) for row in group) for name in _SUMS),
                first_ns=min(row.first_ns for row in group), last_ns=max(row.last_ns for row in group),
                spans=tuple((Incarnation(r.stream, r.created_ns), SeqRange(r.first_seq, r.last_seq)) for r in group),
                revision=max(row.revision for row in group),
            )
            for hour, group in by_hour
        )  # fmt: skip

    def count(self, archive: Archive) -> int:
        """How many hours have live chunks."""
        with self._session.reading() as sql:
            return sql.hour_count(archive=archive.id)

    def revision(self, archive: Archive) -> int:
        """A number that grows with every change of the archive's chunks and gaps: a reader's cursor for `hours`."""
        with self._session.reading() as sql:
            return sql.revision(archive=archive.id)

    def windows(self, archive: Archive, hour: str) -> tuple[HourWindow, ...]:
        """The sequences that the hour accounts for, one range for each incarnation that has chunks in it: from behind
        the last sequence of the hours before to its own last one."""
        with self._session.reading() as sql:
            return tuple(
                HourWindow(Incarnation(w.stream, w.created_ns), SeqRange(w.first_seq, w.last_seq))
                for w in sql.windows_of_hour(archive=archive.id, hour=hour)
            )
