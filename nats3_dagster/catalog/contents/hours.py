"""Hours: the sums of the live chunks of each hour. Triggers keep them; no chunk is read."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from itertools import groupby

from nats3_dagster.catalog.rows import lost_by_reason
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import (
    LOST_IN_CHUNKS,
    Archive,
    HourPart,
    HourSummary,
    Incarnation,
    OtherHour,
    PlacedGap,
    Reason,
    SeqRange,
)


@dataclass(slots=True, kw_only=True)
class HourRow:
    """The live chunks of one hour and incarnation: a row of nats3.hour, units as in HourSummary."""

    archive_id: int
    incarnation_id: int
    stream: str
    created_ns: int
    hour: str
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_seq: int
    last_seq: int
    first_ns: int
    last_ns: int
    revision: int
    # Of `absent`, what was lost, by reason.
    expired: int
    superseded: int
    ttl: int
    superseded_or_ttl: int
    damaged: int
    undelivered: int

    @property
    def span(self) -> tuple[Incarnation, SeqRange]:
        """The sequences of the hour's chunks, from the first to the last, and their incarnation."""
        return Incarnation(self.stream, self.created_ns), SeqRange(self.first_seq, self.last_seq)


@dataclass(slots=True, kw_only=True)
class WindowRow:
    """The sequences of one incarnation between which an hour's chunks and losses lie."""

    stream: str
    created_ns: int
    first_seq: int
    last_seq: int


@dataclass(slots=True, kw_only=True)
class PlacedGapRow:
    """A gap beside an hour's chunks: units as in PlacedGap."""

    seqs: SeqRange
    reason: Reason
    first_hour: str | None
    last_hour: str | None
    after_ns: int | None
    before_ns: int | None


@dataclass(slots=True, kw_only=True)
class OtherHourRow:
    """Sequences of another hour."""

    seqs: SeqRange
    hour: str


@dataclass(slots=True, kw_only=True)
class SpanRow:
    """The first and last sequence of an hour's chunks."""

    hour: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class HourCountsRow:
    """The numbers of an archive's hours."""

    # With live chunks.
    hours: int
    # As they were sealed, and those of them without a message.
    sealed: int
    empty: int


@dataclass(frozen=True, slots=True)
class HourMarks:
    """The facts about an hour that are not of its messages."""

    # Whether a compaction left it with as few chunks as may be.
    compacted: bool = False
    # The names of the holds that cover it.
    holds: list[str] = field(default_factory=list[str])
    # Objects of it that are missing in copies; None without a copy.
    missing_in_copies: int | None = None


@dataclass(slots=True, kw_only=True)
class RevisionRow:
    """The archive's revision when an hour last changed."""

    hour: str
    revision: int


@dataclass(slots=True, kw_only=True)
class AroundRow:
    """The hours beside a range of sequences."""

    before: str | None
    after: str | None


@dataclass(slots=True, kw_only=True)
class BesideRow:
    """The sequences beside some hours."""

    before: int | None
    after: int | None


@dataclass(slots=True, kw_only=True)
class ContentRow:
    """The content of an hour, of one incarnation: units as in HourSummary."""

    hour: str
    stream: str
    created_ns: int
    messages: int
    payload_bytes: int
    # Of one message, at most.
    largest_bytes: int
    first_ns: int
    last_ns: int
    # SHA-256 in hex of the sequences of the messages; None where the catalog does not know them.
    seqs: str | None
    # Missing sequences by reason: an object in JSON.
    lost: str


class Hours:
    """List hours, and what each accounts for."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def select(
        self,
        archive: Archive,
        *,
        first: str | None = None,
        last: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[HourSummary, ...]:
        """Hours that have live chunks, ascending: those from `first` to `last`, both included."""
        with self._session.reading() as sql:
            rows = sql.rows(
                HourRow,
                "list_hours",
                archive=archive.id,
                first_hour=first,
                last_hour=last,
                limit_to=limit,
                skip=offset,
            )
        return tuple(_summary(hour, list(group)) for hour, group in groupby(rows, lambda row: row.hour))

    def counts(self, archive: Archive) -> HourCountsRow:
        """Returns the number of hours that have live chunks, and of those that are sealed."""
        with self._session.reading() as sql:
            return sql.row(HourCountsRow, "hour_counts_of", archive=archive.id) or HourCountsRow(0, 0, 0)

    def revisions(self, archive: Archive) -> dict[str, int]:
        """The hours that have live chunks, ascending, and the archive's revision when each last changed."""
        with self._session.reading() as sql:
            return {row.hour: row.revision for row in sql.rows(RevisionRow, "hour_revisions", archive=archive.id)}

    def around(self, archive: Archive, incarnation: Incarnation, seqs: SeqRange) -> tuple[str | None, str | None]:
        """Returns the last hour with chunks before these sequences, and the first one after them; None where there is
        none."""
        with self._session.reading() as sql:
            row = sql.row(
                AroundRow,
                "hours_around",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                first=seqs.first,
                last=seqs.last,
            )
        return (row.before, row.after) if row else (None, None)

    def beside(
        self, archive: Archive, incarnation: Incarnation, first: str, last: str
    ) -> tuple[int | None, int | None]:
        """Returns the highest sequence of the hours before `first`, and the lowest one of those after `last`; None
        where there is none."""
        with self._session.reading() as sql:
            row = sql.row(
                BesideRow,
                "seqs_beside",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                first_hour=first,
                last_hour=last,
            )
        return (row.before, row.after) if row else (None, None)

    def are_sealed(self, archive: Archive, first: str, last: str) -> bool:
        """True if each hour from `first` to `last` is as it was sealed: of these hours the stream has nothing that is
        in no chunk and no gap."""
        with self._session.reading() as sql:
            return sql.value(bool, "hours_sealed", archive=archive.id, first_hour=first, last_hour=last)

    def revision(self, archive: Archive) -> int:
        """A number that grows with every change of the archive's chunks and gaps."""
        with self._session.reading() as sql:
            return sql.value(int, "revision", archive=archive.id)

    def contents(self, archive: Archive, hours: Collection[str]) -> list[ContentRow]:
        """Returns the content of the hours, a row for each hour and incarnation, oldest first; none for an hour without
        messages and losses. How the messages are cut into chunks changes nothing here."""
        chosen = {"archive": archive.id, "hours": sorted(hours), "losses": [*LOST_IN_CHUNKS]}
        with self._session.reading() as sql:
            return sql.rows(ContentRow, "hour_contents", **chosen)

    def marks(self, archive: Archive, hour: str) -> HourMarks:
        """Holds, compaction and copies of the hour."""
        with self._session.reading() as sql:
            (row,) = sql.rows(HourMarks, "hour_marks", archive=archive.id, hour=hour)
        return row

    def parts(self, archive: Archive, hour: str) -> tuple[HourPart, ...]:
        """Returns the hour's contents besides its chunks: a part for each incarnation that has chunks or losses in it,
        oldest first."""
        with self._session.transaction() as sql:
            windows = sql.rows(WindowRow, "windows_of_hour", archive=archive.id, hour=hour)
            return tuple(_part(sql, archive, hour, window) for window in windows)

    def spans_from(self, archive: Archive, incarnation: Incarnation, seq: int) -> tuple[tuple[str, SeqRange], ...]:
        """Returns the hour of the sequence, or the last one before it, and all later ones: each with the first and last
        sequence of its chunks, in stream order."""
        with self._session.reading() as sql:
            rows = sql.rows(
                SpanRow,
                "hour_spans",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                seq=seq,
            )
        return tuple((row.hour, SeqRange(row.first_seq, row.last_seq)) for row in rows)


def _part(sql: Statements, archive: Archive, hour: str, row: WindowRow) -> HourPart:
    within = {**asdict(row), "archive": archive.id, "hour": hour}
    gaps = (PlacedGap(**asdict(gap)) for gap in sql.rows(PlacedGapRow, "gaps_of_hour", **within))
    others = (OtherHour(**asdict(other)) for other in sql.rows(OtherHourRow, "other_hours", **within))
    seqs = SeqRange(row.first_seq, row.last_seq)
    return HourPart(Incarnation(row.stream, row.created_ns), seqs, tuple(gaps), tuple(others))


def _summary(hour: str, rows: list[HourRow]) -> HourSummary:
    """The hour over all incarnations that have chunks in it."""
    return HourSummary(
        hour=hour,
        chunks=sum(row.chunks for row in rows),
        messages=sum(row.messages for row in rows),
        absent=sum(row.absent for row in rows),
        payload_bytes=sum(row.payload_bytes for row in rows),
        stored_bytes=sum(row.stored_bytes for row in rows),
        first_ns=min(row.first_ns for row in rows),
        last_ns=max(row.last_ns for row in rows),
        spans=tuple(row.span for row in rows),
        revision=max(row.revision for row in rows),
        lost=lost_by_reason(rows),
    )
