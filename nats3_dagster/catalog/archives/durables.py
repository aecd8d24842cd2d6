"""Durables: which deliveries of its durable consumer an archive accounts for."""

from dataclasses import asdict, dataclass

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.model import Archive, Deliveries


@dataclass(slots=True, kw_only=True)
class DurableRow:
    """Deliveries, and whose they are."""

    archive_id: int
    created_ns: int
    consumer_seq: int
    accounted: int
    most: int
    missed_seq: int
    session: str


class Durables:
    """Read and keep the deliveries. The process that takes messages for the archive is the only one that writes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def deliveries(self, archive: Archive) -> Deliveries | None:
        """Returns the deliveries; None if no durable of the archive was seen."""
        with self._session.reading() as sql:
            return sql.row(Deliveries, "deliveries", archive=archive.id)

    def all(self) -> dict[int, Deliveries]:
        """Returns the deliveries of the archives that are not deleted, by the archive's id."""
        with self._session.reading() as sql:
            rows = sql.rows(DurableRow, "all_deliveries")
        return {
            row.archive_id: Deliveries(
                row.created_ns, row.consumer_seq, row.accounted, row.most, row.missed_seq, row.session
            )
            for row in rows
        }

    def record(self, archive: Archive, deliveries: Deliveries) -> None:
        with self._session.transaction() as sql:
            record_deliveries(sql, archive, deliveries)


def record_deliveries(sql: Statements, archive: Archive, deliveries: Deliveries) -> None:
    """`Durables.record` inside a transaction."""
    sql.run("record_deliveries", archive=archive.id, **asdict(deliveries))
