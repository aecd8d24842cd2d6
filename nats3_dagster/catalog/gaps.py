"""Gaps: what no chunk holds, and why. Listed as they are kept; no chunk is read."""

from dataclasses import dataclass

from nats3_dagster.catalog.pool import Session
from nats3_dagster.model import Archive, Gap, Incarnation, Reason, SeqRange


@dataclass(slots=True, kw_only=True)
class GapRow:
    """One range of a gap."""

    stream: str
    created_ns: int
    reason: Reason
    seqs: SeqRange


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
                GapRow, "list_gaps", archive=archive.id, stream=incarnation and incarnation.stream,
                created_ns=incarnation and incarnation.created_ns, first_seq=within and within.first,
                last_seq=within and within.last,
            )  # fmt: skip
        ranges: dict[tuple[Incarnation, Reason], list[SeqRange]] = {}
        for row in rows:
            ranges.setdefault((Incarnation(row.stream, row.created_ns), row.reason), []).append(row.seqs)
        return tuple(Gap(owner, tuple(seqs), reason) for (owner, reason), seqs in ranges.items())
