"""Gaps and hours: what no chunk holds and why, and the live chunks summed by hour.

The rule kept here: both are read as they are kept; no listing here reads a chunk.
"""

from itertools import groupby

from nats3_dagster.catalog.chunks import Chunks
from nats3_dagster.model import Archive, Gap, HourSummary, Incarnation, SeqRange


class Gaps(Chunks):
    """List gaps and hours."""

    def gaps(
        self, archive: Archive, *, incarnation: Incarnation | None = None, within: SeqRange | None = None
    ) -> tuple[Gap, ...]:
        """One gap for each incarnation and reason, ranges ascending and whole where `within` cuts them."""
        with self.reading() as sql:
            rows = sql.list_gaps(
                archive=archive.id, stream=incarnation and incarnation.stream,
                created_ns=incarnation and incarnation.created_ns, first_seq=within and within.first,
                last_seq=within and within.last,
            )  # fmt: skip
            found: dict[tuple[Incarnation, str], list[SeqRange]] = {}
            for row in rows:
                ranges = found.setdefault((Incarnation(row.stream, row.created_ns), row.reason), [])
                ranges.append(SeqRange(row.first_seq, row.last_seq))
        return tuple(Gap(of, tuple(ranges), reason) for (of, reason), ranges in found.items())  # type: ignore[arg-type]

    def hours(
        self, archive: Archive, *, first: str | None = None, last: str | None = None, since: int | None = None,
        limit: int | None = None, offset: int = 0,
    ) -> tuple[HourSummary, ...]:  # fmt: skip
        """Hours that have live chunks, ascending: those from `first` to `last`, both included, and changed after the
        archive's revision `since`."""
        with self.reading() as sql:
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

    def hour_count(self, archive: Archive) -> int:
        """How many hours have live chunks."""
        with self.reading() as sql:
            return sql.hour_count(archive=archive.id)

    def revision(self, archive: Archive) -> int:
        """A number that grows with every change of the archive's chunks and gaps: a reader's cursor for `hours`."""
        with self.reading() as sql:
            return sql.revision(archive=archive.id)


_SUMS = ("chunks", "messages", "absent", "payload_bytes", "stored_bytes")
