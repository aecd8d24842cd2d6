"""Gaps: what no chunk holds, and why. Listed as they are kept; no chunk is read."""

from nats3_dagster.catalog.session import Session
from nats3_dagster.model import Archive, Gap, Incarnation, SeqRange


class Gaps:
    """List gaps and hours."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def select(
        self, archive: Archive, *, incarnation: Incarnation | None = None, within: SeqRange | None = None
    ) -> tuple[Gap, ...]:
        """One gap for each incarnation and reason, ranges ascending and whole where `within` cuts them."""
        with self._session.reading() as sql:
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
