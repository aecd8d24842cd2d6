"""Measures: totals that only grow, how many there are of what, and how captures ended.

Invariant: everything is counted in Postgres, and nothing here reads chunks.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.model import Archive, CaptureEnd, Count

# Captures of an archive that are kept: a day of one a minute is 1,440.
KEPT = 1000
# An error may quote what a server answered.
_ERROR_CHARS = 2000


class Measures:
    """Ask for numbers; note captures."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def grown(self) -> Sequence[Count]:
        """Totals of archives, deleted ones too: they never become fewer."""
        with self._session.reading() as sql:
            return sql.rows(Count, "grown_totals")

    def current(self, closed: str) -> Sequence[Count]:
        """Returns the present contents of archives that are not deleted; hours after `closed` count as open."""
        with self._session.transaction() as sql:
            return [
                *sql.rows(Count, "hour_counts", closed=closed),
                *sql.rows(Count, "missing_counts"),
                *sql.rows(Count, "newest_completed"),
                *sql.rows(Count, "kept_counts"),
            ]

    def replays(self) -> Sequence[Count]:
        """Replays by state, and attempts of replays, deleted ones too, by how they ended."""
        with self._session.transaction() as sql:
            return [*sql.rows(Count, "replay_counts"), *sql.rows(Count, "attempt_counts")]

    def add_captures(self, archive: Archive, started_at: datetime, captures: Iterable[CaptureEnd]) -> None:
        """Note captures that have ended."""
        rows = [
            {
                "hour": capture.hour,
                "messages": capture.messages,
                "payload_bytes": capture.payload_bytes,
                "error_kind": capture.error and capture.error[0],
                "error": capture.error and capture.error[1].replace("\0", "")[:_ERROR_CHARS],
            }
            for capture in captures
        ]
        with self._session.transaction() as sql:
            sql.run(
                "add_captures",
                archive=archive.id,
                started_at=started_at,
                captures=json.dumps(rows),
                run_id=current_run(),
            )
            sql.run("forget_captures", archive=archive.id, keep=KEPT)
