"""History: what happened to an archive, and who did it. Only as much is read as is asked for."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, Held
from nats3_dagster.model import Archive, Happening
from nats3_dagster.redaction import redacted


class History:
    """Read, and keep what was refused."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def newest(self, archives: Sequence[Archive], limit: int, since: datetime | None = None) -> tuple[Happening, ...]:
        """Returns what happened to these archives, the newest first, `limit` at most; with `since` nothing earlier."""
        with self._session.reading() as sql:
            ids = [archive.id for archive in archives]
            return tuple(sql.rows(Happening, "history", archives=ids, since=since, limit_to=limit))

    def refused(self, archive: Archive, what: str, detail: Mapping[str, object], error: Conflict) -> None:
        """Record what a person asked for and nats3 refused."""
        told = {"error_kind": "held" if isinstance(error, Held) else "conflict", "error": redacted(error.what)}
        with self._session.transaction() as sql:
            note(sql, archive, what, {**detail, **told})


def note(sql: Statements, archive: Archive, what: str, detail: Mapping[str, object]) -> None:
    """Record what is done to an archive, in the transaction that does it."""
    sql.run("add_event", archive=archive.id, what=what, detail=json.dumps(dict(detail)), run_id=current_run())
