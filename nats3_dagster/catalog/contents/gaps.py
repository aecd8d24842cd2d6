"""Gaps: what no chunk holds, and why. Listed as they are kept; no chunk is read."""

from collections.abc import Sequence
from dataclasses import dataclass

from nats3_dagster.catalog.session.multirange import from_multirange
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.model import LOSSES, Archive, Gap, Incarnation, Reason, SeqRange


@dataclass(slots=True, kw_only=True)
class GapRow:
    """The gaps of one incarnation and reason."""

    stream: str
    created_ns: int
    reason: Reason
    # The text of an int8multirange.
    ranges: str


@dataclass(slots=True, kw_only=True)
class GapSumRow:
    """The sequences in the gaps of one incarnation and reason."""

    stream: str
    created_ns: int
    reason: Reason
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRow:
    """Messages that were taken out of the archive on purpose."""

    reason: Reason
    # The replay that published them; None where none did.
    replay_id: str | None
    # The most that there may be, unless `is_exact`.
    messages: int
    is_exact: bool


class Gaps:
    """List gaps."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def select(
        self, archive: Archive, *, incarnation: Incarnation | None = None, within: SeqRange | None = None
    ) -> tuple[Gap, ...]:
        """One gap for each incarnation and reason, ranges ascending and whole where `within` cuts them."""
        with self._session.reading() as sql:
            rows = sql.rows(
                GapRow,
                "list_gaps",
                archive=archive.id,
                stream=incarnation and incarnation.stream,
                created_ns=incarnation and incarnation.created_ns,
                first_seq=within and within.first,
                last_seq=within and within.last,
            )
        return _gaps(rows)

    def sums(self, archive: Archive, *, incarnation: Incarnation | None = None) -> dict[Reason, int]:
        """The sequences in gaps of the archive, or of one incarnation, by reason. Reads no gap."""
        with self._session.reading() as sql:
            rows = sql.rows(GapSumRow, "gap_sums", archive=archive.id)
        sums: dict[Reason, int] = {}
        for row in rows:
            if incarnation is None or incarnation == Incarnation(row.stream, row.created_ns):
                sums[row.reason] = sums.get(row.reason, 0) + row.sequences
        return sums

    def erased_in_chunks(self, archive: Archive) -> int:
        """The erased messages of chunks that have others."""
        with self._session.reading() as sql:
            return sql.value(int, "erased_in_chunks", archive=archive.id)

    def losses(self, archive: Archive, within: SeqRange, times: Sequence[tuple[int, int]]) -> tuple[Gap, ...]:
        """The losses that touch `within` and whose messages may have been stored in one of the times `[from, to)`,
        in nanoseconds; as `select`."""
        with self._session.reading() as sql:
            rows = sql.rows(
                GapRow,
                "losses_of_selection",
                archive=archive.id,
                reasons=list(LOSSES),
                first_seq=within.first,
                last_seq=within.last,
                since=[since for since, _ in times],
                until=[until for _, until in times],
            )
        return _gaps(rows)

    def removed(
        self, archive: Archive, within: SeqRange, times: Sequence[tuple[int, int]], hours: Sequence[str] | None
    ) -> list[RemovedRow]:
        """The messages that were removed of `within`, of these hours (all, if None), and stored in one of the times
        `[from, to)`: a row for each reason and replay."""
        with self._session.reading() as sql:
            return sql.rows(
                RemovedRow,
                "removed_of_selection",
                archive=archive.id,
                hours=hours and list(hours),
                first_seq=within.first,
                last_seq=within.last,
                since=[since for since, _ in times],
                until=[until for _, until in times],
            )


def _gaps(rows: Sequence[GapRow]) -> tuple[Gap, ...]:
    return tuple(Gap(Incarnation(r.stream, r.created_ns), from_multirange(r.ranges), r.reason) for r in rows)
