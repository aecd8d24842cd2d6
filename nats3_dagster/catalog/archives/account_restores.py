"""Restores of accounts: the streams without an archive that they make again, the streams that they made, and the drills
that show that they would work."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.catalog.contents.coverage import storable
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.errors import from_json
from nats3_dagster.model import Archive, Incarnation, StreamState
from nats3_dagster.model.account_rule import DerivedStream, KeptRule
from nats3_dagster.model.drill import Drill


@dataclass(slots=True, kw_only=True)
class RestoredRow:
    """A stream that a restore made."""

    stream: str
    created_ns: int
    to_ns: int | None


@dataclass(slots=True, kw_only=True)
class _DrillRow:
    archive_id: int
    drilled_at: datetime
    error: str | None
    messages: int
    payload_bytes: int
    seconds: float
    live: int
    rpo_s: float | None
    proven_at: datetime | None

    def drill(self) -> Drill:
        error = from_json(self.error) if self.error else None
        return Drill(
            self.messages,
            self.payload_bytes,
            self.seconds,
            self.live,
            self.rpo_s,
            error,
            self.drilled_at,
            self.proven_at,
        )


class AccountRestores:
    """Note and find them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def derived(self, kept: KeptRule) -> tuple[DerivedStream, ...]:
        """The streams of a rule whose messages are all of others, by name; those that are gone too."""
        with self._session.reading() as sql:
            return tuple(sql.rows(DerivedStream, "account_streams", rule=kept.id))

    def keep_derived(self, kept: KeptRule, states: Iterable[StreamState]) -> None:
        """Keep how these streams are made again."""
        with self._session.transaction() as sql:
            for state in states:
                sql.run(
                    "keep_account_stream",
                    rule=kept.id,
                    stream=state.name,
                    created_ns=state.incarnation.created_ns,
                    config=json.dumps(storable(state.config)),
                    consumers=state.consumers,
                )

    def mark_gone(self, kept: KeptRule, streams: Collection[str]) -> None:
        """Record that these streams were found to be deleted."""
        with self._session.transaction() as sql:
            sql.run("mark_account_streams_gone", rule=kept.id, streams=[*streams])

    def drop(self, kept: KeptRule, streams: Collection[str]) -> None:
        """Forget these streams."""
        with self._session.transaction() as sql:
            sql.run("drop_account_streams", rule=kept.id, streams=[*streams])

    def archived_up_to(self, archive: Archive, incarnation: Incarnation) -> datetime | None:
        """Returns the time up to which all messages of the stream are in the archive, by the clock of Postgres; None
        where nothing is."""
        with self._session.reading() as sql:
            return sql.value_or_none(
                datetime,
                "archived_up_to",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
            )

    def add_restored(self, kept: KeptRule, state: StreamState, to_ns: int | None) -> None:
        """Record that a restore made this stream."""
        with self._session.transaction() as sql:
            sql.run(
                "add_restored_stream",
                rule=kept.id,
                stream=state.name,
                created_ns=state.incarnation.created_ns,
                to_ns=to_ns,
            )

    def restored(self, kept: KeptRule) -> list[RestoredRow]:
        """The streams that restores of this account made, in the last year at least."""
        with self._session.reading() as sql:
            return sql.rows(RestoredRow, "restored_streams", rule=kept.id)

    def add_drill(self, archive: Archive, drill: Drill) -> None:
        """Keep the result of a drill in place of the one before."""
        with self._session.transaction() as sql:
            sql.run(
                "add_drill",
                archive=archive.id,
                error=drill.error.to_json() if drill.error else None,
                messages=drill.messages,
                payload_bytes=drill.payload_bytes,
                seconds=drill.seconds,
                live=drill.live,
                rpo_s=drill.rpo_s,
            )

    def drills(self, archive_ids: Collection[int]) -> dict[int, Drill]:
        """Returns the last drill of each of these archives that had one."""
        with self._session.reading() as sql:
            return {row.archive_id: row.drill() for row in sql.rows(_DrillRow, "drills", archives=[*archive_ids])}
