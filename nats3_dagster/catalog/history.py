"""History: what happened to an archive, and who did it. Only as much is read as is asked for."""

import json
from collections.abc import Mapping
from datetime import datetime

from nats3_dagster.catalog.pool import Session
from nats3_dagster.catalog.statements import Statements
from nats3_dagster.model import Archive, Happening


class History:
    """Read."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def newest(self, archive: Archive, limit: int, since: datetime | None = None) -> tuple[Happening, ...]:
        """Returns what happened, the newest first, `limit` at most; with `since` nothing earlier."""
        with self._session.reading() as sql:
            return tuple(sql.rows(Happening, "history", archive=archive.id, since=since, limit_to=limit))


def note(sql: Statements, archive: Archive, what: str, detail: Mapping[str, object], run_id: str | None = None) -> None:
    """Keep what is done to an archive, in the transaction that does it."""
    sql.run("add_event", archive=archive.id, what=what, detail=json.dumps(dict(detail)), run_id=run_id)
