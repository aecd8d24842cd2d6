"""Gaps: what no chunk holds, and why. Listed as they are kept; no chunk is read."""

from collections.abc import Sequence
from dataclasses import dataclass

from nats3_dagster.catalog.pool import Session
from nats3_dagster.model import LOSSES, Archive, Gap, Incarnation, Reason, SeqRange


@dataclass(slots=True, kw_only=True)
class GapRow:
    """One range of a gap."""

    stream: str
    created_ns: int
    reason: Reason
    seqs: SeqRange


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRow:
    """Messages that were taken out of the archive on purpose."""

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
        """The messages that were retired of `within`, of these hours (all, if None), and stored in one of the times
        `[from, to)`: a row for each replay."""
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
    ranges: dict[tuple[Incarnation, Reason], list[SeqRange]] = {}
    for row in rows:
        ranges.setdefault((Incarnation(row.stream, row.created_ns), row.reason), []).append(row.seqs)
    return tuple(Gap(owner, tuple(seqs), reason) for (owner, reason), seqs in ranges.items())
