"""Holds: what must not leave an archive.

Invariant: Postgres refuses, at the end of the transaction, whatever takes held messages out of an archive, or reserves
their objects; no caller has to ask (migrations/sql/0100_holds.sql).
"""

from dataclasses import dataclass

from psycopg import errors

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import broken_rule
from nats3_dagster.errors import Conflict, Unknown
from nats3_dagster.model import Archive, Hold, SeqRange


@dataclass(slots=True, kw_only=True)
class HeldRow:
    """The live chunks that holds cover."""

    chunks: int
    # As stored.
    bytes: int


class Holds:
    """Place, list and release."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        archive: Archive,
        name: str,
        reason: str,
        *,
        hours: tuple[str | None, str | None] = (None, None),
        seqs: SeqRange | None = None,
        actor: str | None = None,
    ) -> Hold:
        """The new hold on all hours and sequences, or on hours from first to last and sequences. `actor`: who
        placed it, if it was not this process. Raises Conflict when
        there is one of this name, or the archive is deleted."""
        with self._session.transaction() as sql:
            try:
                row = sql.row(
                    Hold,
                    "add_hold",
                    archive=archive.id,
                    name=name,
                    first_hour=hours[0],
                    last_hour=hours[1],
                    first_seq=seqs and seqs.first,
                    last_seq=seqs and seqs.last,
                    reason=reason,
                    actor=actor,
                )
            except errors.UniqueViolation as error:
                raise Conflict(
                    f"Archive {archive.name} has a hold {name} already", "Choose another name, or delete that one first"
                ) from error
            except errors.IntegrityError as error:
                raise broken_rule(error, archive.name) from error
        assert row is not None
        return row

    def all(self, archive: Archive) -> tuple[Hold, ...]:
        """Returns the holds that hold now, the oldest first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(Hold, "holds", archive=archive.id))

    def archives_with(self, name: str) -> list[str]:
        """The archives that a hold of this name holds now."""
        with self._session.reading() as sql:
            return sql.values(str, "archives_with_hold", name=name)

    def holding(self, archive: Archive, hour: str, seqs: SeqRange) -> str | None:
        """The name of a hold that covers one of these sequences of the hour; None where none does."""
        with self._session.reading() as sql:
            return sql.value_or_none(
                str, "holding", archive=archive.id, hour=hour, first_seq=seqs.first, last_seq=seqs.last
            )

    def held(self, archive: Archive) -> HeldRow:
        """The live chunks that holds cover."""
        with self._session.reading() as sql:
            row = sql.row(HeldRow, "held_of", archive=archive.id)
        assert row is not None
        return row

    def absences(self, archive: Archive) -> int:
        """The sequences that were taken out of the archive although a hold covered them: 0 unless another hand changed
        the catalog."""
        with self._session.reading() as sql:
            return sql.value(int, "held_absences", archive=archive.id)

    def release(self, archive: Archive, name: str, reason: str) -> None:
        """End a hold. Raises OperatorError when there is none of this name."""
        with self._session.transaction() as sql:
            if not sql.run("release_hold", archive=archive.id, name=name, reason=reason):
                names = ", ".join(hold.name for hold in self.all(archive)) or "none"
                raise Unknown(f"Archive {archive.name} has no hold {name}", f"It has {names}")
